/* Runs of backward that share leaves and graphs: on several threads, and nested; custom functions. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>
#include <mindtorch.h>
#include <mtprof.h>
#include <pthread.h>

#define TEST(fn) cmocka_unit_test(fn)
#define THREADS 4
#define ROUNDS 60
#define ITEMS 4096 /* so that adding takes a while */

#define assert_mt_ok(call)                                                                                   \
    do {                                                                                                     \
        if ((call) != MT_OK)                                                                                 \
            fail_msg("%s: %s", #call, mt_last_error());                                                      \
    } while (0)

static mt_tensor *leaf(float value)
{
    static float data[ITEMS];
    mt_tensor *t;
    for (unsigned i = 0; i < ITEMS; i++)
        data[i] = value;
    assert_mt_ok(mt_tensor_from(data, MT_FLOAT32, 1, (int64_t[]){ITEMS}, &t));
    assert_mt_ok(mt_set_requires_grad(t, true));
    return t;
}

static double gradient(mt_tensor *t)
{
    double value = -1;
    MT_SCOPE
    {
        assert_non_null(mt_grad(t));
        assert_mt_ok(mt_item(MT(sum, mt_grad(t)), &value));
    }
    return value / ITEMS;
}

typedef struct work {
    mt_tensor *leaf, *graph;
    bool frees;
    unsigned done, freed;
    pthread_barrier_t *start;
} work;

static void run_threads(void *(*run)(void *), work *works)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run, &works[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void *use_leaf(void *user)
{
    work *w = user;
    if (w->start != NULL)
        pthread_barrier_wait(w->start);
    for (unsigned i = 0; i < (w->start != NULL ? 1 : ROUNDS); i++)
        MT_SCOPE
        {
            w->done += mt_backward(MT(sum, MT(mul, w->leaf, 2))) == MT_OK;
        }
    return NULL;
}

static void threads_add_into_one_leaf(void **state)
{
    (void)state;
    mt_tensor *x = leaf(1);
    work works[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        works[i] = (work){.leaf = x};
    run_threads(use_leaf, works);
    assert_int_equal((int)gradient(x), 2 * THREADS * ROUNDS);
    mt_release(x);
}

static void threads_use_a_leaf_for_the_first_time(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        mt_tensor *x = leaf(1);
        pthread_barrier_t start;
        work works[THREADS];
        pthread_barrier_init(&start, NULL, THREADS);
        for (unsigned i = 0; i < THREADS; i++)
            works[i] = (work){.leaf = x, .start = &start};
        run_threads(use_leaf, works);
        assert_int_equal((int)gradient(x), 2 * THREADS);
        pthread_barrier_destroy(&start);
        mt_release(x);
    }
}

static void *use_graph(void *user)
{
    work *w = user;
    mt_backward_options keep = {.size = sizeof keep, .retain_graph = !w->frees};
    for (unsigned i = 0; i < (w->frees ? 1 : ROUNDS); i++) {
        mt_status status = mt_backward_from(&w->graph, NULL, 1, &keep, NULL);
        w->done += status == MT_OK;
        w->freed += status == MT_E_RUNTIME && strstr(mt_last_error(), "a second time") != NULL;
    }
    return NULL;
}

/* (x * x).exp().sum(); owned */
static mt_tensor *graph_of(mt_tensor *x)
{
    mt_tensor *graph = NULL;
    MT_SCOPE
    {
        graph = mt_retain(MT(sum, MT(exp, MT(mul, x, x))));
    }
    assert_non_null(graph);
    return graph;
}

static void threads_walk_one_graph(void **state)
{
    (void)state;
    mt_tensor *x = leaf(0), *graph = graph_of(x);
    work works[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        works[i] = (work){.graph = graph};
    run_threads(use_graph, works);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(works[i].done, ROUNDS);
    assert_int_equal((int)gradient(x), 0);
    mt_release(graph);
    mt_release(x);
}

static void a_graph_that_threads_free_is_walked_or_refused(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        mt_tensor *x = leaf(1), *graph = graph_of(x);
        work works[THREADS];
        unsigned done = 0, all = 0;
        for (unsigned i = 0; i < THREADS; i++)
            works[i] = (work){.graph = graph, .frees = true};
        run_threads(use_graph, works);
        for (unsigned i = 0; i < THREADS; i++) {
            done += works[i].done;
            all += works[i].done + works[i].freed;
        }
        assert_int_equal(all, THREADS);
        assert_true(done >= 1);
        mt_release(graph);
        mt_release(x);
    }
}

static mt_tensor *go_backward(mt_tensor *grad, void *user, bool *failed)
{
    mt_tensor **inner = user;
    mt_tensor *graph = *inner;
    (void)grad;
    *inner = NULL;
    *failed = graph != NULL && mt_backward(graph) != MT_OK;
    return NULL;
}

static void a_hook_goes_backward_through_the_same_leaf(void **state)
{
    (void)state;
    mt_tensor *x = leaf(1), *inner = NULL, *kept = NULL;
    MT_SCOPE
    {
        uint64_t id;
        mt_tensor *y = MT(mul, x, 2);
        kept = inner = mt_retain(MT(sum, MT(mul, x, 3)));
        assert_mt_ok(mt_hook_add(y, go_backward, NULL, &inner, &id));
        assert_mt_ok(mt_backward(MT(sum, y)));
    }
    assert_int_equal((int)gradient(x), 5);
    mt_release(kept);
    mt_release(x);
}

static mt_status twice(void *user, mt_tensor *const *grads, mt_tensor **input_grads)
{
    (void)user;
    mt_value args[] = {mt_value_tensor(grads[0]), mt_value_int(2)};
    return mt_call(MT_OP_mul, args, 2, &input_grads[0]);
}

static void a_function_of_ones_own_is_recorded_with_its_nodes_number(void **state)
{
    (void)state;
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    mtp_profile *profile;
    mtp_trace *trace;
    mtp_events *events;
    mt_tensor *x = leaf(1);
    assert_int_equal(mtp_profile_create(&config, &profile), MTP_OK);
    assert_int_equal(mtp_profile_start(profile), MTP_OK);
    MT_SCOPE
    {
        mt_custom forward;
        mt_custom_begin("Twice", &x, 1, &forward);
        mt_tensor *y = NULL;
        bool was = mt_grad_enable(false);
        y = MT(mul, x, 2);
        mt_grad_enable(was);
        assert_mt_ok(mt_custom_attach_to(&forward, "TwiceBackward", &x, 1, &y, 1, twice, NULL, NULL));
        mt_custom_end(&forward);
        assert_mt_ok(mt_backward(MT(sum, y)));
    }
    assert_int_equal(mtp_profile_stop(profile), MTP_OK);
    assert_int_equal(mtp_profile_trace(profile, &trace), MTP_OK);
    assert_int_equal(mtp_events_create(trace, &events), MTP_OK);
    size_t count;
    int64_t numbers[2] = {-1, -2};
    assert_int_equal(mtp_events_count(events, &count), MTP_OK);
    for (size_t i = 0; i < count; i++) {
        mtp_event event = {.size = sizeof event};
        assert_int_equal(mtp_events_get(events, i, &event), MTP_OK);
        for (unsigned k = 0; k < 2; k++) {
            const char *name = k == 0 ? "Twice" : "TwiceBackward";
            if (event.name.length == strlen(name) && memcmp(event.name.bytes, name, event.name.length) == 0)
                numbers[k] = event.sequence;
        }
    }
    assert_int_equal(numbers[0], numbers[1]);
    assert_int_equal((int)gradient(x), 2);
    mtp_events_destroy(events);
    mtp_trace_destroy(trace);
    mtp_profile_destroy(profile);
    mt_release(x);
}

static void count_release(void *user)
{
    ++*(unsigned *)user;
}

/* Half of y in place, as a custom function: the history of y goes on, and what was saved is released once. */
static void a_function_of_ones_own_changes_a_view_in_place(void **state)
{
    (void)state;
    mt_tensor *x = leaf(1);
    unsigned released = 0;
    MT_SCOPE
    {
        mt_tensor *y = MT(mul, x, 3), *half = MT(narrow, y, 0, 0, ITEMS / 2);
        mt_custom forward;
        mt_custom_begin("Twice", &half, 1, &forward);
        bool was = mt_grad_enable(false);
        MT(mul_, half, 2);
        mt_grad_enable(was);
        forward.let_go = count_release;
        assert_mt_ok(
            mt_custom_attach_to(&forward, "TwiceBackward", &half, 1, &half, 1, twice, NULL, &released));
        mt_custom_end(&forward);
        mt_tensor *loss = MT(sum, y);
        mt_backward_options keep = {.size = sizeof keep, .retain_graph = true};
        assert_mt_ok(mt_backward_from(&loss, NULL, 1, &keep, NULL));
        assert_int_equal(released, 0);
        assert_mt_ok(mt_backward(loss));
        assert_int_equal(released, 1);
        mt_custom_begin("Twice", &x, 1, &forward);
        assert_int_equal(mt_custom_attach_to(&forward, "TwiceBackward", &x, 1, &x, 1, twice, NULL, NULL),
                         MT_E_RUNTIME);
        mt_custom_end(&forward);
        assert_null(mt_grad_fn(x)); /* a leaf stays one */
    }
    assert_int_equal((int)(gradient(x) * 2), 18); /* twice: 6 in one half, 3 in the other */
    mt_release(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(threads_add_into_one_leaf),
        TEST(threads_use_a_leaf_for_the_first_time),
        TEST(threads_walk_one_graph),
        TEST(a_graph_that_threads_free_is_walked_or_refused),
        TEST(a_hook_goes_backward_through_the_same_leaf),
        TEST(a_function_of_ones_own_is_recorded_with_its_nodes_number),
        TEST(a_function_of_ones_own_changes_a_view_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
