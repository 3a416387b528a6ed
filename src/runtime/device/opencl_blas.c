/* runtime/device/opencl_blas.c - matrix products by CLBlast, if it is installed.
 *
 * MINDTORCH_CLBLAST=0 disables it, =1 uses it on every device; unset, it is used on GPUs only: on a CPU its
 * kernels, which are tuned for GPUs, are no faster than ours and take seconds to compile.
 */
#define _GNU_SOURCE
#include "runtime/device/opencl.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROW_MAJOR = 101,
    PLAIN = 111,
    TRANSPOSED = 112
};

typedef int sgemm_fn(int layout, int ta, int tb, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                     size_t a_at, size_t lda, cl_mem b, size_t b_at, size_t ldb, float beta, cl_mem c,
                     size_t c_at, size_t ldc, cl_command_queue *queue, cl_event *event);
typedef int dgemm_fn(int layout, int ta, int tb, size_t m, size_t n, size_t k, double alpha, cl_mem a,
                     size_t a_at, size_t lda, cl_mem b, size_t b_at, size_t ldb, double beta, cl_mem c,
                     size_t c_at, size_t ldc, cl_command_queue *queue, cl_event *event);
typedef int sbatch_fn(int layout, int ta, int tb, size_t m, size_t n, size_t k, float alpha, cl_mem a,
                      size_t a_at, size_t lda, size_t a_step, cl_mem b, size_t b_at, size_t ldb,
                      size_t b_step, float beta, cl_mem c, size_t c_at, size_t ldc, size_t c_step,
                      size_t count, cl_command_queue *queue, cl_event *event);
typedef int dbatch_fn(int layout, int ta, int tb, size_t m, size_t n, size_t k, double alpha, cl_mem a,
                      size_t a_at, size_t lda, size_t a_step, cl_mem b, size_t b_at, size_t ldb,
                      size_t b_step, double beta, cl_mem c, size_t c_at, size_t ldc, size_t c_step,
                      size_t count, cl_command_queue *queue, cl_event *event);

static struct {
    sgemm_fn *sgemm;
    dgemm_fn *dgemm;
    sbatch_fn *sbatch;
    dbatch_fn *dbatch;
    bool found;
} lib;
static pthread_once_t looked = PTHREAD_ONCE_INIT;

static void look(void)
{
    void *h = dlopen("libclblast.so.1", RTLD_NOW | RTLD_LOCAL);
    if (h == NULL)
        return;
    *(void **)&lib.sgemm = dlsym(h, "CLBlastSgemm");
    *(void **)&lib.dgemm = dlsym(h, "CLBlastDgemm");
    *(void **)&lib.sbatch = dlsym(h, "CLBlastSgemmStridedBatched");
    *(void **)&lib.dbatch = dlsym(h, "CLBlastDgemmStridedBatched");
    lib.found = lib.sgemm != NULL && lib.dgemm != NULL && lib.sbatch != NULL && lib.dbatch != NULL;
}

const char *clp_gemm_name(mtp_plugin_device *device)
{
    const char *set = getenv("MINDTORCH_CLBLAST");
    if (set != NULL && strcmp(set, "0") == 0)
        return NULL;
    cl_device_type type = 0;
    clGetDeviceInfo(device->id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
    if ((set == NULL || *set == 0) && (type & CL_DEVICE_TYPE_CPU))
        return NULL;
    pthread_once(&looked, look);
    return lib.found ? "CLBlast" : NULL;
}

mtp_status clp_gemm(mtp_plugin_stream *stream, const mtp_plugin_gemm *g, mtp_plugin_event **event)
{
    cl_command_queue queue = (cl_command_queue)stream;
    cl_event *e = (cl_event *)event;
    cl_mem a = (cl_mem)g->a, b = (cl_mem)g->b, c = (cl_mem)g->c;
    int ta = g->transpose_a ? TRANSPOSED : PLAIN, tb = g->transpose_b ? TRANSPOSED : PLAIN, code;
    if (event != NULL)
        *event = NULL;
    pthread_once(&looked, look);
    if (!lib.found)
        return clp_fail(MTP_E_UNSUPPORTED, "libclblast.so.1 is not installed");
    if (g->dtype == MTP_FLOAT32 && g->batch == 1)
        code = lib.sgemm(ROW_MAJOR, ta, tb, g->m, g->n, g->k, (float)g->alpha, a, g->a_at, g->lda, b, g->b_at,
                         g->ldb, (float)g->beta, c, g->c_at, g->ldc, &queue, e);
    else if (g->dtype == MTP_FLOAT64 && g->batch == 1)
        code = lib.dgemm(ROW_MAJOR, ta, tb, g->m, g->n, g->k, g->alpha, a, g->a_at, g->lda, b, g->b_at,
                         g->ldb, g->beta, c, g->c_at, g->ldc, &queue, e);
    else if (g->dtype == MTP_FLOAT32)
        code = lib.sbatch(ROW_MAJOR, ta, tb, g->m, g->n, g->k, (float)g->alpha, a, g->a_at, g->lda, g->a_step,
                          b, g->b_at, g->ldb, g->b_step, (float)g->beta, c, g->c_at, g->ldc, g->c_step,
                          g->batch, &queue, e);
    else if (g->dtype == MTP_FLOAT64)
        code = lib.dbatch(ROW_MAJOR, ta, tb, g->m, g->n, g->k, g->alpha, a, g->a_at, g->lda, g->a_step, b,
                          g->b_at, g->ldb, g->b_step, g->beta, c, g->c_at, g->ldc, g->c_step, g->batch,
                          &queue, e);
    else
        return clp_fail(MTP_E_UNSUPPORTED, "CLBlast supports float32 and float64 only");
    return code == 0 ? MTP_OK : clp_fail(MTP_E_STATE, "CLBlast error %d", code);
}
