/* Device "npu" when its driver, its memory or its plug-in fails: a clear error that names it, and the process
 * continues.
 *
 * Run with MINDTORCH_DEVICE_PLUGIN=faulty_plugin and FAULTY_BEHIND=the plug-in behind it. Skipped, with the
 * reason, if there is no OpenCL device.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <mindtorch_nn.h>
#include <mtprof.h>
#include <sys/wait.h>
#include <unistd.h>
#include "faulty_plugin.h"

static void (*fault)(faulty_kind kind, int after);
static void (*heal)(void);

static void assert_says(const char *part)
{
    if (strstr(mt_last_error(), part) == NULL)
        fail_msg("the error does not say '%s': %s", part, mt_last_error());
}

static mt_tensor *ones(int64_t n)
{
    return MT(ones, MT_SHAPE(n), (int64_t)MT_FLOAT32, (int64_t)MT_NPU(0));
}

/* An op on the device, and its result. -1: it failed. */
static double sum_of(int64_t n)
{
    double sum = -1;
    mt_tensor *x = ones(n), *s = x != NULL ? MT(sum, x) : NULL;
    return s != NULL && mt_item(s, &sum) == MT_OK ? sum : -1;
}

/* Loads the plug-in on first use. */
static void assert_well(void)
{
    if (heal == NULL) {
        void *plugin = dlopen(getenv("MINDTORCH_DEVICE_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
        assert_non_null(plugin);
        *(void **)&fault = dlsym(plugin, "faulty_set");
        *(void **)&heal = dlsym(plugin, "faulty_clear");
    }
    heal();
    MT_SCOPE
    {
        assert_true(sum_of(100) == 100);
    }
}

/* -------------------------------------------------------------------------------------- plug-ins that are
 * not one */

/* What mt_npu_absence() says in a process with this environment, in which the CPU still works. */
static void assert_absent(const char *name, const char *value, const char *says)
{
    char text[1024] = "";
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv(name, value, 1);
        bool good = mt_npu_count() == 0;
        MT_SCOPE
        {
            good = good && ones(3) == NULL && strstr(mt_last_error(), "npu") != NULL;
        }
        MT_SCOPE
        {
            good = good && MT(ones, MT_SHAPE(3)) != NULL;
        }
        dprintf(ends[1], "%s", mt_npu_absence());
        _exit(good ? 0 : 1);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof text - 1);
    int status = 0;
    waitpid(child, &status, 0);
    close(ends[0]);
    if (n <= 0 || strstr(text, says) == NULL || status != 0)
        fail_msg("%s=%s: '%s', status %d, instead of '%s'", name, value, text, status, says);
}

static void a_plugin_that_cannot_be_used_is_told_by_name(void **state)
{
    (void)state;
    assert_absent("FAULTY_TABLE", "version", "was built for another version of mtprof_device.h");
    assert_absent("FAULTY_TABLE", "short", "has a truncated function table");
    assert_absent("FAULTY_TABLE", "hole", "lacks a required function");
    assert_absent("MINDTORCH_DEVICE_PLUGIN", "/nowhere/lib.so", "/nowhere/lib.so");
    assert_absent("MINDTORCH_DEVICE_PLUGIN", "libm.so.6", "does not export mtp_plugin_get");
    assert_absent("MINDTORCH_DEVICE", "none", "MINDTORCH_DEVICE=none");
    assert_absent("MINDTORCH_OPENCL_DEVICE", "no such name", "MINDTORCH_OPENCL_DEVICE=no such name");
}

/* --------------------------------------------------------------------------------------------------
 * faults */

static void out_of_memory_tells_how_much_and_the_next_op_works(void **state)
{
    (void)state;
    mt_memory_stats stats = {.size = sizeof stats};
    assert_well();
    assert_int_equal(mt_memory(MT_NPU(0), &stats), MT_OK);
    uint64_t before = stats.allocated;
    fault(FAULTY_MEMORY, 0);
    MT_SCOPE
    {
        assert_null(ones(3 << 20));
        assert_says("NPU out of memory. Tried to allocate 12.00 MiB. npu:0");
        assert_says("CL_MEM_OBJECT_ALLOCATION_FAILURE");
    }
    assert_int_equal(mt_memory(MT_NPU(0), &stats), MT_OK);
    assert_int_equal(stats.allocated, before);
    assert_well();
}

static void what_is_cached_is_given_back_before_memory_is_out(void **state)
{
    (void)state;
    mt_memory_stats stats = {.size = sizeof stats};
    assert_well();
    MT_SCOPE
    {
        assert_non_null(ones(1 << 20));
    }
    assert_int_equal(mt_memory(MT_NPU(0), &stats), MT_OK);
    uint64_t held = stats.reserved;
    assert_true(held >= 4 << 20);
    fault(FAULTY_MEMORY, 0);
    MT_SCOPE
    {
        assert_null(ones(5 << 20)); /* another size: it needs new memory */
    }
    heal();
    assert_int_equal(mt_memory(MT_NPU(0), &stats), MT_OK);
    assert_true(stats.reserved < held);
    assert_well();
}

static void a_kernel_that_does_not_build_has_the_compilers_words(void **state)
{
    (void)state;
    assert_well();
    fault(FAULTY_BUILD, 0);
    MT_SCOPE
    {
        assert_null(MT(tanh, ones(10)));
        assert_says("npu:0");
        assert_says("tanh");
        assert_says("undeclared");
    }
    heal();
    MT_SCOPE
    {
        assert_non_null(MT(tanh, ones(10))); /* it is not remembered as broken */
    }
    assert_well();
}

static void a_launch_that_fails_is_an_error_of_its_op(void **state)
{
    (void)state;
    assert_well();
    fault(FAULTY_LAUNCH, 0);
    MT_SCOPE
    {
        assert_true(sum_of(10) == -1);
        assert_says("device npu:0: launch: clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES");
    }
    assert_well();
}

static mtp_profile *profile(void)
{
    mtp_profile *prof = NULL;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.profile_memory = true;
    assert_int_equal(mtp_profile_create(&config, &prof), MTP_OK);
    assert_int_equal(mtp_profile_start(prof), MTP_OK);
    return prof;
}

static uint64_t kernels_of(mtp_profile *prof)
{
    mtp_trace *trace = NULL;
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    assert_int_equal(mtp_profile_stop(prof), MTP_OK);
    assert_int_equal(mtp_profile_trace(prof, &trace), MTP_OK);
    assert_int_equal(mtp_trace_get_info(trace, &info), MTP_OK);
    mtp_trace_destroy(trace);
    mtp_profile_destroy(prof);
    return info.device_spans;
}

static void a_lost_device_ends_no_process_and_no_profile(void **state)
{
    (void)state;
    assert_well();
    mtp_profile *prof = profile();
    MT_SCOPE
    {
        assert_true(sum_of(10) == 10); /* waited for: its events may be read */
        assert_int_equal(mt_synchronize(MT_NPU(0)), MT_OK);
        mt_tensor *x = ones(10);
        fault(FAULTY_LOST, 0);
        MT_SCOPE
        {
            assert_null(MT(add, x, x));
            assert_says("CL_DEVICE_NOT_AVAILABLE");
        }
        MT_SCOPE
        {
            assert_null(ones(1 << 20));
        }
        MT_SCOPE
        {
            assert_null(MT(to_device, x, (int64_t)MT_CPU));
        }
        assert_int_equal(mt_synchronize(MT_NPU(0)), MT_E_RUNTIME);
        assert_says("npu:0");
    } /* memory on the device is still released */
    MT_SCOPE
    {
        double sum;
        assert_int_equal(mt_item(MT(sum, MT(ones, MT_SHAPE(3))), &sum), MT_OK);
        assert_true(sum == 3);
    }
    assert_true(kernels_of(prof) >= 2);
    assert_well();
}

/* Its size class has 40 MiB, and the device allocates at most 34 at a time. */
static void a_block_that_fits_but_for_its_class_is_had(void **state)
{
    (void)state;
    mt_memory_stats stats = {.size = sizeof stats};
    assert_well();
    mt_memory_empty_cache(MT_NPU(0));
    assert_int_equal(mt_memory(MT_NPU(0), &stats), MT_OK);
    uint64_t before = stats.reserved;
    fault(FAULTY_LARGE, 34);
    MT_SCOPE
    {
        int64_t n = (int64_t)33 << 18;
        mt_tensor *x = ones(n);
        assert_non_null(x);
        assert_int_equal(mt_memory(MT_NPU(0), &stats), MT_OK);
        assert_int_equal(stats.reserved - before, (uint64_t)n * 4);
        assert_null(ones((int64_t)35 << 18));
        assert_says("Tried to allocate 35.00 MiB");
    }
    assert_int_equal(mt_memory(MT_NPU(0), &stats), MT_OK);
    assert_int_equal(stats.reserved, before); /* it went back at once */
    assert_well();
}

/* Work in flight when a recording ends belongs to no other recording. */
static void work_of_an_abandoned_profile_is_not_in_the_next(void **state)
{
    (void)state;
    assert_well();
    mtp_profile *prof = profile();
    assert_well();
    uint64_t each = kernels_of(prof);
    prof = profile();
    for (int i = 0; i < 5; i++)
        assert_well();
    mtp_profile_destroy(prof); /* without an end */
    prof = profile();
    assert_well();
    assert_int_equal(kernels_of(prof), each);
}

/* More launches than the ring holds, on a device that never reports them as done. */
static void events_that_never_end_do_not_stop_the_program(void **state)
{
    (void)state;
    assert_well();
    mtp_profile *prof = profile();
    fault(FAULTY_EVENTS, 0);
    MT_SCOPE
    {
        mt_tensor *x = ones(4);
        for (int i = 0; i < 10000; i++)
            if (MT(add_, x, 1) == NULL)
                fail_msg("%s", mt_last_error());
    }
    kernels_of(prof);
    assert_well();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            a_plugin_that_cannot_be_used_is_told_by_name), /* first: this process has not loaded the plug-in */
        cmocka_unit_test(out_of_memory_tells_how_much_and_the_next_op_works),
        cmocka_unit_test(what_is_cached_is_given_back_before_memory_is_out),
        cmocka_unit_test(a_kernel_that_does_not_build_has_the_compilers_words),
        cmocka_unit_test(a_launch_that_fails_is_an_error_of_its_op),
        cmocka_unit_test(a_lost_device_ends_no_process_and_no_profile),
        cmocka_unit_test(a_block_that_fits_but_for_its_class_is_had),
        cmocka_unit_test(work_of_an_abandoned_profile_is_not_in_the_next),
        cmocka_unit_test(events_that_never_end_do_not_stop_the_program),
    };
    int failed = 0;
    pid_t probe = fork(); /* asking loads the plug-in, and only the children may load it here */
    if (probe == 0)
        _exit(mt_npu_count() > 0 ? 0 : 77);
    waitpid(probe, &failed, 0);
    if (failed != 0) {
        printf("1..0 # SKIP no OpenCL device\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
