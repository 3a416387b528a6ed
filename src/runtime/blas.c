/* runtime/blas.c - gemm: one interface to OpenBLAS, found at run time, and to our own code.
 *
 *     mt__gemm ──► layouts (maybe copied) ──► split over the pool ──► OpenBLAS | blocked gemm | integers
 *
 * Threads: any. The library is opened once and limited to one thread: products are split over the runtime's
 * own pool, so that mt_set_num_threads() controls both, batches run in parallel and a fork meets no foreign
 * threads at work. MT_BLAS=builtin in the environment forces our own code.
 */
#define _GNU_SOURCE
#include "runtime/blas.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------- finding a library */

enum {
    ROW_MAJOR = 101,
    NO_TRANS = 111,
    TRANS = 112
}; /* values of CBLAS */

typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int, const float *, int, float,
                      float *, int);
typedef void dgemm_fn(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                      double *, int);
typedef void sgemv_fn(int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void dgemv_fn(int, int, int, int, double, const double *, int, const double *, int, double, double *,
                      int);

static struct {
    sgemm_fn *sgemm; /* NULL: no library */
    dgemm_fn *dgemm;
    sgemv_fn *sgemv;
    dgemv_fn *dgemv;
    char name[128];
} lib;
static pthread_once_t lib_once = PTHREAD_ONCE_INIT;

/* ISO C has no cast from data to function pointers; POSIX guarantees that the bits fit. */
static bool symbol(void *handle, const char *name, void *slot)
{
    void *p = dlsym(handle, name);
    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

static bool open_library(const char *file)
{
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    void (*set_threads)(int) = NULL;
    char *(*config)(void) = NULL;
    if (handle == NULL)
        return false;
    if (!symbol(handle, "cblas_dgemm", &lib.dgemm) || !symbol(handle, "cblas_sgemv", &lib.sgemv) ||
        !symbol(handle, "cblas_dgemv", &lib.dgemv) || !symbol(handle, "cblas_sgemm", &lib.sgemm)) {
        lib.sgemm = NULL;
        dlclose(handle);
        return false;
    }
    if (symbol(handle, "openblas_set_num_threads", &set_threads))
        set_threads(1);
    if (symbol(handle, "openblas_get_config", &config))
        snprintf(lib.name, sizeof lib.name, "%s", config());
    else
        snprintf(lib.name, sizeof lib.name, "%s", file);
    return true;
}

static void find_library(void)
{
    static const char *const files[] = {"libopenblas.so.0", "libopenblas.so", "libblas.so.3"};
    const char *choice = getenv("MT_BLAS");
    if (choice == NULL || strcmp(choice, "builtin") != 0)
        for (unsigned i = 0; i < MT__COUNT_OF(files); i++)
            if (open_library(files[i]))
                return;
    snprintf(lib.name, sizeof lib.name, "built in");
}

const char *mt_blas_name(void)
{
    pthread_once(&lib_once, find_library);
    return lib.name;
}

/* -------------------------------------------------------------------------------------------- our own gemm */

/* A block of c, MR x 2 vectors, is computed from packed panels of a (MR wide) and b; accumulators
 * stay in registers. */
#define TILE(name, type, vector, MR, TARGET)                                                                 \
    TARGET static void name(int64_t k, const type *restrict a, const type *restrict b, type *restrict out)   \
    {                                                                                                        \
        vector acc[MR][2];                                                                                   \
        memset(acc, 0, sizeof acc);                                                                          \
        for (int64_t p = 0; p < k; p++, a += (MR), b += 2 * sizeof(vector) / sizeof(type)) {                 \
            vector b0, b1;                                                                                   \
            memcpy(&b0, b, sizeof b0);                                                                       \
            memcpy(&b1, b + sizeof(vector) / sizeof(type), sizeof b1);                                       \
            _Pragma("GCC unroll 8") for (int i = 0; i < (MR); i++)                                           \
            {                                                                                                \
                acc[i][0] += a[i] * b0;                                                                      \
                acc[i][1] += a[i] * b1;                                                                      \
            }                                                                                                \
        }                                                                                                    \
        memcpy(out, acc, sizeof acc);                                                                        \
    }

typedef float float4 __attribute__((vector_size(16)));
typedef double double2 __attribute__((vector_size(16)));
TILE(tile_f32, float, float4, 4, )
TILE(tile_f64, double, double2, 4, )
#ifdef __x86_64__
#define HAVE_AVX2
#define AVX2 __attribute__((target("avx2,fma")))
typedef float float8 __attribute__((vector_size(32)));
typedef double double4 __attribute__((vector_size(32)));
TILE(tile_f32_avx2, float, float8, 6, AVX2)
TILE(tile_f64_avx2, double, double4, 6, AVX2)
#endif

#define MR_MAX 6
#define NR_MAX 16
#define KC 256
#define MC 96   /* a multiple of every MR */
#define NC 1024 /* a multiple of every NR */

static bool wide_vectors(void)
{
#ifdef HAVE_AVX2
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

/* A thread's panels, kept until it ends: they are too large to allocate for each product. */
static pthread_key_t panels_key;
static pthread_once_t panels_once = PTHREAD_ONCE_INIT;
static void make_panels_key(void)
{
    pthread_key_create(&panels_key, free);
}
static void *panels(void)
{
    pthread_once(&panels_once, make_panels_key);
    void *p = pthread_getspecific(panels_key);
    if (p == NULL) {
        p = aligned_alloc(64, (size_t)(KC * (MC + NC)) * sizeof(double));
        pthread_setspecific(panels_key, p);
    }
    return p;
}

/* c += alpha * a @ b. Panels of a have MR rows each, panels of b NR columns, padded with zeros. */
#define BLOCKED(type, suffix, WIDE_TILE)                                                                     \
    static void pack_##suffix(const type *restrict from, int64_t wide, int64_t k, int64_t along,             \
                              int64_t across, int64_t w, type *restrict to)                                  \
    {                                                                                                        \
        for (int64_t i = 0; i < wide; i += w) {                                                              \
            int64_t here = wide - i < w ? wide - i : w;                                                      \
            for (int64_t p = 0; p < k; p++, to += w) {                                                       \
                const type *at = from + i * across + p * along;                                              \
                if (across == 1)                                                                             \
                    memcpy(to, at, (size_t)here * sizeof(type));                                             \
                else                                                                                         \
                    for (int64_t x = 0; x < here; x++)                                                       \
                        to[x] = at[x * across];                                                              \
                for (int64_t x = here; x < w; x++)                                                           \
                    to[x] = 0;                                                                               \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static bool blocked_##suffix(type alpha, const mt__matrix *a, const mt__matrix *b, const mt__matrix *c)  \
    {                                                                                                        \
        const bool wide = wide_vectors();                                                                    \
        const int64_t mr = wide ? 6 : 4, nr = (wide ? 64 : 32) / (int64_t)sizeof(type);                      \
        type *pa = panels(), *pb = pa + KC * MC;                                                             \
        _Alignas(64) type out[MR_MAX * NR_MAX];                                                              \
        if (pa == NULL)                                                                                      \
            return false;                                                                                    \
        for (int64_t j0 = 0; j0 < c->columns; j0 += NC)                                                      \
            for (int64_t p0 = 0; p0 < a->columns; p0 += KC) {                                                \
                int64_t n = c->columns - j0 < NC ? c->columns - j0 : NC;                                     \
                int64_t k = a->columns - p0 < KC ? a->columns - p0 : KC;                                     \
                pack_##suffix((const type *)b->data + p0 * b->row + j0 * b->column, n, k, b->row, b->column, \
                              nr, pb);                                                                       \
                for (int64_t i0 = 0; i0 < c->rows; i0 += MC) {                                               \
                    int64_t m = c->rows - i0 < MC ? c->rows - i0 : MC;                                       \
                    pack_##suffix((const type *)a->data + i0 * a->row + p0 * a->column, m, k, a->column,     \
                                  a->row, mr, pa);                                                           \
                    for (int64_t j = 0; j < n; j += nr)                                                      \
                        for (int64_t i = 0; i < m; i += mr) {                                                \
                            type *to = (type *)c->data + (i0 + i) * c->row + j0 + j;                         \
                            int64_t mm = m - i < mr ? m - i : mr, nn = n - j < nr ? n - j : nr;              \
                            (wide ? WIDE_TILE : tile_##suffix)(k, pa + i * k, pb + j * k, out);              \
                            for (int64_t y = 0; y < mm; y++)                                                 \
                                for (int64_t x = 0; x < nn; x++)                                             \
                                    to[y * c->row + x] += alpha * out[y * nr + x];                           \
                        }                                                                                    \
                }                                                                                            \
            }                                                                                                \
        return true;                                                                                         \
    }
#ifdef HAVE_AVX2
BLOCKED(float, f32, tile_f32_avx2)
BLOCKED(double, f64, tile_f64_avx2)
#else
BLOCKED(float, f32, tile_f32)
BLOCKED(double, f64, tile_f64)
#endif

/* Integers: row by row, so that the inner loop runs along c and b. Overflow wraps around as for
 * unsigned numbers. */
#define INTEGERS(type, word, suffix)                                                                         \
    static void integers_##suffix(type alpha, const mt__matrix *a, const mt__matrix *b, const mt__matrix *c) \
    {                                                                                                        \
        for (int64_t i = 0; i < c->rows; i++) {                                                              \
            word *restrict to = (word *)c->data + i * c->row;                                                \
            for (int64_t p = 0; p < a->columns; p++) {                                                       \
                word x = (word)alpha * ((const word *)a->data)[i * a->row + p * a->column];                  \
                const word *from = (const word *)b->data + p * b->row;                                       \
                for (int64_t j = 0; j < c->columns; j++)                                                     \
                    to[j] += x * from[j * b->column];                                                        \
            }                                                                                                \
        }                                                                                                    \
    }
INTEGERS(int32_t, uint32_t, i32)
INTEGERS(int64_t, uint64_t, i64)

#define SCALE(type, suffix)                                                                                  \
    static void scale_##suffix(const mt__matrix *c, type beta)                                               \
    {                                                                                                        \
        for (int64_t i = 0; i < c->rows; i++) {                                                              \
            type *row = (type *)c->data + i * c->row;                                                        \
            if (beta == 0)                                                                                   \
                memset(row, 0, (size_t)c->columns * sizeof(type));                                           \
            else                                                                                             \
                for (int64_t j = 0; j < c->columns; j++)                                                     \
                    row[j] *= beta;                                                                          \
        }                                                                                                    \
    }
SCALE(float, f32)
SCALE(double, f64)
SCALE(uint32_t, i32)
SCALE(uint64_t, i64)

static void scale(mt_dtype dtype, const mt__matrix *c, double beta)
{
    if (beta == 1)
        return;
    if (dtype == MT_FLOAT32)
        scale_f32(c, (float)beta);
    else if (dtype == MT_FLOAT64)
        scale_f64(c, beta);
    else if (dtype == MT_INT32)
        scale_i32(c, (uint32_t)(int32_t)beta);
    else
        scale_i64(c, (uint64_t)(int64_t)beta);
}

/* ------------------------------------------------------------------------------------------- one product */

typedef struct product {
    mt_dtype dtype;
    bool ours; /* our own code, not the library */
    double alpha, beta;
    mt__matrix a, b, c;
    bool by_rows; /* how c is split */
    int64_t part; /* rows or columns per part */
    _Atomic bool failed;
} product;

/* BLAS's description of a row-major or column-major matrix. */
typedef struct layout {
    int trans, ld;
} layout;

static bool layout_of(const mt__matrix *m, layout *out)
{
    int64_t ld = 0;
    if ((m->column == 1 || m->columns == 1) && (m->rows == 1 || m->row >= m->columns)) {
        out->trans = NO_TRANS;
        ld = m->rows == 1 ? m->columns : m->row;
    } else if ((m->row == 1 || m->rows == 1) && (m->columns == 1 || m->column >= m->rows)) {
        out->trans = TRANS;
        ld = m->columns == 1 ? m->rows : m->column;
    } else {
        return false;
    }
    out->ld = (int)ld;
    return ld <= INT_MAX;
}

/* c is a column, or a row, i.e. a column of the transposed product. */
static void by_gemv(const product *p, mt__matrix a, mt__matrix x, mt__matrix y)
{
    layout la = {NO_TRANS, 1};
    layout_of(&a, &la);
    int rows = (int)(la.trans == TRANS ? a.columns : a.rows),
        columns = (int)(la.trans == TRANS ? a.rows : a.columns);
    int incx = x.rows == 1 ? 1 : (int)x.row, incy = y.rows == 1 ? 1 : (int)y.row;
    if (p->dtype == MT_FLOAT32)
        lib.sgemv(ROW_MAJOR, la.trans, rows, columns, (float)p->alpha, a.data, la.ld, x.data, incx,
                  (float)p->beta, y.data, incy);
    else
        lib.dgemv(ROW_MAJOR, la.trans, rows, columns, p->alpha, a.data, la.ld, x.data, incx, p->beta, y.data,
                  incy);
}

static void by_library(product *p, const mt__matrix *a, const mt__matrix *b, const mt__matrix *c)
{
    layout la = {NO_TRANS, 1}, lb = la;
    int m = (int)c->rows, n = (int)c->columns, k = (int)a->columns,
        ldc = (int)(c->rows == 1 ? c->columns : c->row);
    if (n == 1 || m == 1) {
        if (p->beta == 0) /* gemv may read c although it should not */
            scale(p->dtype, c, 0);
        if (n == 1)
            by_gemv(p, *a, *b, *c);
        else
            by_gemv(p, mt__transposed(*b), mt__transposed(*a), mt__transposed(*c));
        return;
    }
    layout_of(a, &la);
    layout_of(b, &lb);
    if (p->dtype == MT_FLOAT32)
        lib.sgemm(ROW_MAJOR, la.trans, lb.trans, m, n, k, (float)p->alpha, a->data, la.ld, b->data, lb.ld,
                  (float)p->beta, c->data, ldc);
    else
        lib.dgemm(ROW_MAJOR, la.trans, lb.trans, m, n, k, p->alpha, a->data, la.ld, b->data, lb.ld, p->beta,
                  c->data, ldc);
}

static void by_ourselves(product *p, const mt__matrix *a, const mt__matrix *b, const mt__matrix *c)
{
    bool done = true;
    scale(p->dtype, c, p->beta);
    if (p->dtype == MT_FLOAT32)
        done = blocked_f32((float)p->alpha, a, b, c);
    else if (p->dtype == MT_FLOAT64)
        done = blocked_f64(p->alpha, a, b, c);
    else if (p->dtype == MT_INT32)
        integers_i32((int32_t)p->alpha, a, b, c);
    else
        integers_i64((int64_t)p->alpha, a, b, c);
    if (!done)
        atomic_store_explicit(&p->failed, true, memory_order_relaxed);
}

static inline void *element(mt_dtype dtype, const mt__matrix *m, int64_t row, int64_t column)
{
    return (char *)m->data + (size_t)(row * m->row + column * m->column) * mt_dtype_bytes(dtype);
}

static void one_part(int64_t begin, int64_t end, void *user)
{
    product *p = user;
    mt__matrix a = p->a, b = p->b, c = p->c;
    int64_t from = begin * p->part, to = end * p->part;
    if (p->by_rows) {
        to = to < c.rows ? to : c.rows;
        a.data = element(p->dtype, &a, from, 0);
        c.data = element(p->dtype, &c, from, 0);
        a.rows = c.rows = to - from;
    } else {
        to = to < c.columns ? to : c.columns;
        b.data = element(p->dtype, &b, 0, from);
        c.data = element(p->dtype, &c, 0, from);
        b.columns = c.columns = to - from;
    }
    (p->ours ? by_ourselves : by_library)(p, &a, &b, &c);
}

/* A row-major copy of m, for strides that BLAS cannot handle. The caller frees *copy. */
static mt_status straighten(mt_dtype dtype, mt__matrix *m, void **copy)
{
    bool eight = dtype == MT_FLOAT64 || dtype == MT_INT64;
    *copy = malloc((size_t)(m->rows * m->columns) * (eight ? 8 : 4));
    if (*copy == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: a copy of a matrix of %lld x %lld", (long long)m->rows,
                        (long long)m->columns);
    for (int64_t i = 0; i < m->rows; i++)
        for (int64_t j = 0; j < m->columns; j++)
            if (eight)
                ((uint64_t *)*copy)[i * m->columns + j] =
                    ((const uint64_t *)m->data)[i * m->row + j * m->column];
            else
                ((uint32_t *)*copy)[i * m->columns + j] =
                    ((const uint32_t *)m->data)[i * m->row + j * m->column];
    *m = (mt__matrix){*copy, m->rows, m->columns, m->columns, 1};
    return MT_OK;
}

#define SPLIT_FROM ((double)(1 << 20)) /* multiplications that make waking a worker worthwhile */
#define PART_UNIT 16                   /* parts are multiples of it: whole tiles, whole cache lines */

static void split(product *p)
{
    double work = (double)p->c.rows * (double)p->c.columns * (double)p->a.columns;
    int64_t threads = work < SPLIT_FROM ? 1 : mt_num_threads();
    p->by_rows = p->c.rows >= p->c.columns;
    int64_t length = p->by_rows ? p->c.rows : p->c.columns;
    int64_t units = (length + PART_UNIT - 1) / PART_UNIT;
    if (threads > units)
        threads = units;
    p->part = (units + threads - 1) / threads * PART_UNIT;
    mt__parallel((length + p->part - 1) / p->part, 1, one_part, p);
}

mt_status mt__gemm(mt_dtype dtype, double alpha, const mt__matrix *a, const mt__matrix *b, double beta,
                   const mt__matrix *c)
{
    product p = {.dtype = dtype, .alpha = alpha, .beta = beta, .a = *a, .b = *b, .c = *c};
    void *copy_a = NULL, *copy_b = NULL;
    mt_status status = MT_OK;
    layout unused;
    if (c->rows == 0 || c->columns == 0)
        return MT_OK;
    if (a->columns == 0) {
        scale(dtype, c, beta);
        return MT_OK;
    }
    mt_blas_name();
    p.ours = lib.sgemm == NULL || !mt__is_floating(dtype) || c->rows > INT_MAX || c->columns > INT_MAX ||
             a->columns > INT_MAX || c->row > INT_MAX;
    if (!p.ours) { /* ours handles any strides */
        if (!layout_of(a, &unused))
            status = straighten(dtype, &p.a, &copy_a);
        if (status == MT_OK && !layout_of(b, &unused))
            status = straighten(dtype, &p.b, &copy_b);
    }
    if (status == MT_OK)
        split(&p);
    if (status == MT_OK && atomic_load_explicit(&p.failed, memory_order_relaxed))
        status = mt__fail(MT_E_NOMEM, "out of memory: panels of a matrix product");
    free(copy_a);
    free(copy_b);
    return status;
}
