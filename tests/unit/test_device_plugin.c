/* What any device plug-in must do (mtprof_device.h): test another with MINDTORCH_DEVICE_PLUGIN=/path/lib.so.
 * Skipped, with the reason, if the plug-in finds no device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <mtprof_device.h>

static const mtp_plugin *api;
static mtp_plugin_device *device;
static mtp_plugin_stream *stream;
static mtp_plugin_properties properties;

#define OK(call)                                                                                             \
    do {                                                                                                     \
        mtp_status got = (call);                                                                             \
        if (got != MTP_OK)                                                                                   \
            fail_msg("%s: %s (%s)", #call, mtp_status_text(got), api->last_error());                         \
    } while (0)

static mtp_plugin_memory *memory_of(uint64_t bytes)
{
    mtp_plugin_memory *m = NULL;
    OK(api->alloc(device, bytes, &m));
    assert_non_null(m);
    return m;
}

static void the_table_is_whole(void **state)
{
    (void)state;
    assert_int_equal(api->version, MTP_PLUGIN_VERSION);
    assert_true(api->size >= offsetof(mtp_plugin, gemm));
    assert_non_null(api->name);
    assert_non_null(api->language);
    for (int i = 0; i < 8; i++)
        assert_true(api->calls[i] != NULL && api->calls[i][0] != 0);
    /* every slot from last_error to clock is filled */
    void *const *slot = (void *const *)(const void *)&api->last_error;
    void *const *end = (void *const *)(const void *)&api->gemm;
    for (; slot < end; slot++)
        assert_non_null(*slot);
    assert_non_null(api->last_error());
}

static void another_version_is_refused(void **state)
{
    (void)state;
    mtp_plugin_get_fn *get;
    memcpy(&get, state, sizeof get);
    assert_null(get(MTP_PLUGIN_VERSION + 1000));
}

static void a_device_that_is_not_there_is_refused(void **state)
{
    (void)state;
    mtp_plugin_device *none = (mtp_plugin_device *)&state;
    assert_int_not_equal(api->open(100000, &none), MTP_OK);
    assert_null(none);
    assert_true(api->last_error()[0] != 0);
}

static void properties_tell_what_it_is(void **state)
{
    (void)state;
    assert_true(properties.name[0] != 0);
    assert_true(properties.memory_bytes > 0 && properties.work_group_most >= 64);
    mtp_plugin_properties wrong = {.size = 1};
    assert_int_equal(api->properties(device, &wrong), MTP_E_ABI);
}

static void bytes_come_back_as_they_went(void **state)
{
    (void)state;
    enum {
        N = 100000
    };
    static unsigned char in[N], out[N];
    for (int i = 0; i < N; i++)
        in[i] = (unsigned char)(i * 7 + i / 256);
    mtp_plugin_memory *a = memory_of(N), *b = memory_of(N);
    mtp_plugin_event *event = NULL;
    OK(api->copy_in(stream, a, 0, in, N, false, &event));
    assert_non_null(event);
    OK(api->copy(stream, b, 16, a, 32, N - 64, NULL));
    OK(api->copy_out(stream, out, b, 16, N - 64, true, NULL));
    assert_memory_equal(out, in + 32, N - 64);
    bool done = false;
    OK(api->event_done(event, &done));
    assert_true(done);
    api->event_release(event);
    api->free(a);
    api->free(b);
}

static void fills_take_patterns_of_1_2_4_and_8_bytes(void **state)
{
    (void)state;
    unsigned char out[64], pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    mtp_plugin_memory *m = memory_of(64);
    for (uint32_t size = 1; size <= 8; size *= 2) {
        OK(api->fill(stream, m, 0, 64, pattern, size, NULL));
        OK(api->fill(stream, m, 16, 16, "\0\0\0\0\0\0\0\0", size, NULL));
        OK(api->copy_out(stream, out, m, 0, 64, true, NULL));
        for (uint32_t i = 0; i < 64; i++)
            assert_int_equal(out[i], i >= 16 && i < 32 ? 0 : pattern[i % size]);
    }
    api->free(m);
}

static const char source[] =
    "__kernel void twice(__global int *x, long at, int by) { x[at + get_global_id(0)] *= by; }\n"
    "__kernel void slow(__global int *x, int n) { int s = x[0]; for (int i = 0; i < n; i++) s = s * "
    "1664525 + 1013904223; x[0] = s; }\n";

static void kernels_get_their_arguments_and_run_in_order(void **state)
{
    (void)state;
    int32_t data[256], out[256];
    int64_t at = 64;
    mtp_plugin_kernel *k = NULL;
    mtp_plugin_memory *m = memory_of(sizeof data);
    for (int i = 0; i < 256; i++)
        data[i] = i;
    OK(api->kernel_build(device, source, "", "twice", &k));
    OK(api->copy_in(stream, m, 0, data, sizeof data, true, NULL));
    for (int32_t by = 2; by < 5; by++) {
        mtp_plugin_arg args[3] = {{.kind = 0}, {.kind = 1, .bytes = 8}, {.kind = 1, .bytes = 4}};
        args[0].as.memory = m;
        args[1].as.value = &at;
        args[2].as.value = &by;
        uint64_t global = 128, local = 64;
        OK(api->launch(stream, k, 1, &global, by == 3 ? NULL : &local, args, 3, NULL));
    }
    OK(api->copy_out(stream, out, m, 0, sizeof out, true, NULL));
    for (int i = 0; i < 256; i++)
        assert_int_equal(out[i], i >= 64 && i < 192 ? i * 24 : i);
    api->kernel_release(k);
    api->free(m);
}

static void a_kernel_that_does_not_build_says_why(void **state)
{
    (void)state;
    mtp_plugin_kernel *k = (mtp_plugin_kernel *)&state;
    assert_int_equal(api->kernel_build(device, "__kernel void broken(", "", "broken", &k), MTP_E_FORMAT);
    assert_null(k);
    assert_non_null(strstr(api->last_error(), "broken"));
    assert_int_not_equal(api->kernel_build(device, source, "", "nothing_of_this_name", &k), MTP_OK);
    assert_null(k);
}

static uint64_t host_clock(void)
{
    return mtp_now_ns();
}

static void times_are_in_order_and_on_the_clock(void **state)
{
    (void)state;
    mtp_plugin_kernel *k = NULL;
    mtp_plugin_memory *m = memory_of(64);
    mtp_plugin_event *events[3];
    mtp_plugin_times t[3];
    uint64_t first, before, after, last, x, y, one = 1;
    int32_t n = 1000000;
    OK(api->kernel_build(device, source, "", "slow", &k));
    OK(api->clock(device, host_clock, &first, &before, &after));
    assert_true(before <= after);
    for (int i = 0; i < 3; i++) {
        mtp_plugin_arg args[2] = {{.kind = 0}, {.kind = 1, .bytes = 4}};
        args[0].as.memory = m;
        args[1].as.value = &n;
        OK(api->launch(stream, k, 1, &one, &one, args, 2, &events[i]));
    }
    OK(api->stream_flush(stream));
    OK(api->event_wait(events[2]));
    OK(api->stream_synchronize(stream));
    OK(api->clock(device, host_clock, &last, &x, &y));
    assert_true(last > first && x >= after);
    /* both clocks count nanoseconds at the same rate, within their resolution and the noise of a busy
     * machine */
    double device_ns = (double)(last - first), host_ns = (double)(x - before);
    assert_true(device_ns < host_ns * 1.2 + 1e6 &&
                device_ns > host_ns * 0.8 - 1e6 - (double)(y - x) - (double)(after - before));
    for (int i = 0; i < 3; i++) {
        OK(api->event_times(events[i], &t[i]));
        assert_true(t[i].queued <= t[i].submitted && t[i].submitted <= t[i].start && t[i].start <= t[i].end);
        if (i > 0)
            assert_true(t[i].start >= t[i - 1].end);
        assert_true(t[i].end <= last + 2 * (uint64_t)properties.clock_resolution_ns);
        api->event_release(events[i]);
    }
    api->kernel_release(k);
    api->free(m);
}

static void a_stream_waits_for_an_event_of_another(void **state)
{
    (void)state;
    mtp_plugin_stream *other = NULL;
    mtp_plugin_event *event = NULL;
    mtp_plugin_memory *m = memory_of(64);
    int32_t five = 5, out = 0;
    OK(api->stream_create(device, &other));
    OK(api->fill(stream, m, 0, 64, &five, 4, NULL));
    OK(api->event_record(stream, &event));
    OK(api->stream_flush(stream));
    OK(api->stream_wait(other, event));
    OK(api->copy_out(other, &out, m, 60, 4, true, NULL));
    assert_int_equal(out, 5);
    api->event_release(event);
    api->stream_destroy(other);
    api->free(m);
}

static void more_memory_than_there_is_is_refused(void **state)
{
    (void)state;
    mtp_plugin_memory *m = (mtp_plugin_memory *)&state;
    assert_int_equal(api->alloc(device, (uint64_t)1 << 60, &m), MTP_E_NOMEM);
    assert_null(m);
}

static void products_are_right_where_there_is_a_library(void **state)
{
    (void)state;
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, c[4] = {0};
    if (api->gemm == NULL || api->gemm_name(device) == NULL)
        skip();
    mtp_plugin_memory *ma = memory_of(sizeof a), *mb = memory_of(sizeof b), *mc = memory_of(sizeof c);
    OK(api->copy_in(stream, ma, 0, a, sizeof a, true, NULL));
    OK(api->copy_in(stream, mb, 0, b, sizeof b, true, NULL));
    mtp_plugin_gemm g = {.size = sizeof g,
                         .dtype = MTP_FLOAT32,
                         .m = 2,
                         .n = 2,
                         .k = 3,
                         .batch = 1,
                         .alpha = 1,
                         .a = ma,
                         .b = mb,
                         .c = mc,
                         .lda = 3,
                         .ldb = 2,
                         .ldc = 2};
    OK(api->gemm(stream, &g, NULL));
    OK(api->copy_out(stream, c, mc, 0, sizeof c, true, NULL));
    assert_true(c[0] == 4 && c[1] == 5 && c[2] == 10 && c[3] == 11);
    api->free(ma);
    api->free(mb);
    api->free(mc);
}

int main(int argc, char **argv)
{
    const char *path = getenv("MINDTORCH_DEVICE_PLUGIN");
    if ((path == NULL || *path == 0) && argc > 1)
        path = argv[1];
    void *h = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (h == NULL) {
        printf("1..0 # SKIP no device plug-in: %s\n",
               path != NULL ? dlerror() : "name one in MINDTORCH_DEVICE_PLUGIN");
        return 77;
    }
    mtp_plugin_get_fn *get;
    *(void **)&get = dlsym(h, MTP_PLUGIN_ENTRY);
    api = get != NULL ? get(MTP_PLUGIN_VERSION) : NULL;
    uint32_t n = 0;
    if (api == NULL || api->count(&n) != MTP_OK) {
        printf("Bail out! %s is no plug-in of version %u\n", path, MTP_PLUGIN_VERSION);
        return 1;
    }
    if (n == 0) {
        printf("1..0 # SKIP %s finds no device\n", api->name);
        return 77;
    }
    properties.size = sizeof properties;
    if (api->open(0, &device) != MTP_OK || api->properties(device, &properties) != MTP_OK ||
        api->stream_create(device, &stream) != MTP_OK) {
        printf("Bail out! %s\n", api->last_error());
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_whole),
        cmocka_unit_test_prestate(another_version_is_refused, (void *)(uintptr_t)get),
        cmocka_unit_test(a_device_that_is_not_there_is_refused),
        cmocka_unit_test(properties_tell_what_it_is),
        cmocka_unit_test(bytes_come_back_as_they_went),
        cmocka_unit_test(fills_take_patterns_of_1_2_4_and_8_bytes),
        cmocka_unit_test(kernels_get_their_arguments_and_run_in_order),
        cmocka_unit_test(a_kernel_that_does_not_build_says_why),
        cmocka_unit_test(times_are_in_order_and_on_the_clock),
        cmocka_unit_test(a_stream_waits_for_an_event_of_another),
        cmocka_unit_test(more_memory_than_there_is_is_refused),
        cmocka_unit_test(products_are_right_where_there_is_a_library),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    api->stream_destroy(stream);
    api->close(device);
    return failed;
}
