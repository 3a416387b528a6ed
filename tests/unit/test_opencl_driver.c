/* test_opencl_driver.c - unit: the OpenCL layer over a fake driver, which does what drivers may do but PoCL
 * does not.
 *
 * usage: test_opencl_driver LAYER       opens the layer as a loader would; it records into the test's profile
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl_layer.h>
#include <dlfcn.h>
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ the
 * driver */

typedef struct fake_event {
    cl_int state, refs;
    bool late; /* its times are unavailable once more after its state says complete */
    cl_command_queue queue;
} fake_event;

static struct {
    bool refuses_profiling, profiles, holds, late;
    cl_int state; /* of what is enqueued */
    int alive, flushes, queues_made;
    cl_ulong now;
    fake_event *held[64];
    int held_count;
} driver;

static cl_command_queue CL_API_CALL create_queue(cl_context context, cl_device_id id,
                                                 cl_command_queue_properties properties, cl_int *code)
{
    (void)context, (void)id;
    bool profiles = (properties & CL_QUEUE_PROFILING_ENABLE) != 0,
         refused = profiles && driver.refuses_profiling;
    if (code != NULL)
        *code = refused ? CL_INVALID_QUEUE_PROPERTIES : CL_SUCCESS;
    driver.profiles = profiles;
    return refused ? NULL : (cl_command_queue)(uintptr_t)(0x100 + 0x10 * driver.queues_made++);
}

static cl_int CL_API_CALL queue_info(cl_command_queue q, cl_command_queue_info what, size_t room, void *out,
                                     size_t *size)
{
    (void)q, (void)room, (void)size;
    if (what != CL_QUEUE_DEVICE)
        return CL_INVALID_VALUE;
    *(cl_device_id *)out = (cl_device_id)(uintptr_t)0x30;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL device_info(cl_device_id id, cl_device_info what, size_t room, void *out,
                                      size_t *size)
{
    (void)id, (void)what, (void)room, (void)out, (void)size;
    return CL_INVALID_VALUE; /* it says nothing of itself */
}

static cl_int CL_API_CALL copy(cl_command_queue q, cl_mem from, cl_mem to, size_t a, size_t b, size_t bytes,
                               cl_uint n, const cl_event *list, cl_event *e)
{
    (void)from, (void)to, (void)a, (void)b, (void)bytes, (void)n, (void)list;
    fake_event *f = calloc(1, sizeof *f);
    if (f == NULL || e == NULL)
        return CL_OUT_OF_HOST_MEMORY;
    *f = (fake_event){driver.state, 1, driver.late, q};
    if (driver.holds || driver.state > CL_COMPLETE)
        driver.held[driver.held_count++] = f;
    if (driver.holds)
        f->state = CL_QUEUED;
    driver.alive++;
    *e = (cl_event)f;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL event_info(cl_event e, cl_event_info what, size_t room, void *out, size_t *size)
{
    fake_event *f = (fake_event *)e;
    (void)room, (void)size;
    if (what == CL_EVENT_COMMAND_QUEUE)
        *(cl_command_queue *)out = f->queue;
    else
        *(cl_int *)out = f->state;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL event_times(cl_event e, cl_profiling_info what, size_t room, void *out,
                                      size_t *size)
{
    fake_event *f = (fake_event *)e;
    (void)what, (void)room, (void)size;
    bool late = f->late;
    f->late = false;
    if (!driver.profiles || f->state != CL_COMPLETE || late)
        return CL_PROFILING_INFO_NOT_AVAILABLE;
    *(cl_ulong *)out = driver.now += 10;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL retain(cl_event e)
{
    ((fake_event *)e)->refs++;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL release(cl_event e)
{
    fake_event *f = (fake_event *)e;
    if (--f->refs == 0) {
        driver.alive--;
        free(f);
    }
    return CL_SUCCESS;
}

static void end_held(void)
{
    for (int i = 0; i < driver.held_count; i++)
        driver.held[i]->state = CL_COMPLETE;
    driver.held_count = 0;
}

static cl_int CL_API_CALL flush(cl_command_queue q)
{
    (void)q;
    driver.flushes++;
    end_held();
    return CL_SUCCESS;
}

static cl_int CL_API_CALL finish(cl_command_queue q)
{
    (void)q;
    return CL_SUCCESS;
}

/* -------------------------------------------------------------------------------------------------- the
 * tests */

static const char *layer_path;
static const cl_icd_dispatch *layer;
static mtp_profile *prof;

static int load(void **state)
{
    static cl_icd_dispatch target;
    cl_uint count = 0;
    (void)state;
    void *lib = dlopen(layer_path, RTLD_NOW);
    if (lib == NULL) {
        printf("# %s\n", dlerror());
        return -1;
    }
    pfn_clInitLayer init = (pfn_clInitLayer)(uintptr_t)dlsym(lib, "clInitLayer");
    target.clCreateCommandQueue = create_queue;
    target.clGetCommandQueueInfo = queue_info;
    target.clGetDeviceInfo = device_info;
    target.clEnqueueCopyBuffer = copy;
    target.clGetEventInfo = event_info;
    target.clGetEventProfilingInfo = event_times;
    target.clRetainEvent = retain;
    target.clReleaseEvent = release;
    target.clFlush = flush;
    target.clFinish = finish;
    unsetenv("MTPROF_OUT");
    assert_int_equal(init(4, &target, &count, &layer), CL_INVALID_VALUE); /* an older loader's */
    assert_int_equal(init(sizeof target / sizeof target.clFinish, &target, &count, &layer), CL_SUCCESS);
    return mtp_profile_create(NULL, &prof) == MTP_OK ? 0 : -1;
}

static int start(void **state)
{
    (void)state;
    memset(&driver, 0, sizeof driver);
    return mtp_profile_start(prof) == MTP_OK ? 0 : -1;
}

/* Stops, and returns the amount of device work recorded. */
static uint64_t work(void)
{
    mtp_trace *trace;
    mtp_averages *rows;
    uint64_t count = 0;
    assert_int_equal(mtp_profile_stop(prof), MTP_OK);
    assert_int_equal(mtp_profile_trace(prof, &trace), MTP_OK);
    assert_int_equal(mtp_averages_create(trace, NULL, &rows), MTP_OK);
    for (size_t i = 0; i < mtp_averages_count(rows); i++)
        if (mtp_averages_row(rows, i)->is_device)
            count += mtp_averages_row(rows, i)->count;
    mtp_averages_destroy(rows);
    mtp_trace_destroy(trace);
    return count;
}

static cl_command_queue queue_of(cl_command_queue_properties properties)
{
    cl_int code;
    cl_command_queue q = layer->clCreateCommandQueue(NULL, NULL, properties, &code);
    assert_non_null(q);
    assert_int_equal(code, CL_SUCCESS);
    return q;
}

static void enqueue(cl_command_queue q, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(layer->clEnqueueCopyBuffer(q, NULL, NULL, 0, 0, 8, 0, NULL, NULL), CL_SUCCESS);
}

static void every_event_is_given_back(void **state)
{
    (void)state;
    enqueue(queue_of(0), 3000);
    assert_int_equal(work(), 3000);
    assert_int_equal(driver.alive, 0);
}

static void the_programs_own_event_stays_its_own(void **state)
{
    cl_event e;
    (void)state;
    assert_int_equal(layer->clEnqueueCopyBuffer(queue_of(0), NULL, NULL, 0, 0, 8, 0, NULL, &e), CL_SUCCESS);
    assert_int_equal(work(), 1);
    assert_int_equal(driver.alive, 1);
    assert_int_equal(((fake_event *)e)->refs, 1);
    release(e);
}

static void one_that_ends_between_two_questions_is_kept(void **state)
{
    (void)state;
    driver.late = true;
    enqueue(queue_of(0), 100);
    assert_int_equal(work(), 100);
    assert_int_equal(driver.alive, 0);
}

static void one_that_failed_is_left_out(void **state)
{
    (void)state;
    cl_command_queue q = queue_of(0);
    driver.state = CL_OUT_OF_RESOURCES;
    enqueue(q, 5);
    driver.state = CL_COMPLETE;
    enqueue(q, 7);
    assert_int_equal(work(), 7);
    assert_int_equal(driver.alive, 0);
}

static void a_queue_that_is_held_back_holds_no_other(void **state)
{
    (void)state;
    cl_command_queue held = queue_of(0), q = queue_of(0);
    driver.state = CL_SUBMITTED;
    enqueue(held, 3);
    driver.state = CL_COMPLETE;
    for (int i = 0; i < 20; i++) {
        enqueue(q, 400);
        assert_int_equal(layer->clFinish(q), CL_SUCCESS);
    }
    assert_true(driver.alive < 4000); /* of 8,003 */
    end_held();
    assert_int_equal(work(), 8003);
    assert_int_equal(driver.alive, 0);
}

static void what_the_driver_keeps_back_is_submitted_at_the_end(void **state)
{
    (void)state;
    cl_command_queue q = queue_of(0);
    driver.holds = true;
    enqueue(q, 10);
    assert_int_equal(work(), 10);
    assert_true(driver.flushes > 0);
    assert_int_equal(driver.alive, 0);
}

static void what_never_ends_is_given_back_too(void **state)
{
    (void)state;
    driver.state = CL_SUBMITTED;
    enqueue(queue_of(0), 4);
    assert_int_equal(work(), 0);
    assert_int_equal(driver.alive, 0);
}

static void a_driver_without_profiling_runs_the_program_all_the_same(void **state)
{
    (void)state;
    driver.refuses_profiling = true;
    cl_command_queue q = queue_of(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    enqueue(q, 6);
    assert_int_equal(work(), 0);
    assert_int_equal(driver.alive, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_event_is_given_back, start),
        cmocka_unit_test_setup(the_programs_own_event_stays_its_own, start),
        cmocka_unit_test_setup(one_that_ends_between_two_questions_is_kept, start),
        cmocka_unit_test_setup(one_that_failed_is_left_out, start),
        cmocka_unit_test_setup(a_queue_that_is_held_back_holds_no_other, start),
        cmocka_unit_test_setup(what_the_driver_keeps_back_is_submitted_at_the_end, start),
        cmocka_unit_test_setup(what_never_ends_is_given_back_too, start),
        cmocka_unit_test_setup(a_driver_without_profiling_runs_the_program_all_the_same, start),
    };
    if (argc != 2)
        return 2;
    layer_path = argv[1];
    return cmocka_run_group_tests(tests, load, NULL);
}
