/* tests/unit/memory_lists.h - memory timelines of traces made by hand. */
#ifndef TESTS_UNIT_MEMORY_LISTS_H
#define TESTS_UNIT_MEMORY_LISTS_H
#include "tests/made_trace.h"
#include <math.h>
#include <unistd.h>
#include "analyze/memory.h"

#define GOLDEN TEST_ROOT "/tests/golden/memory/"
#define ENGINE "autograd::engine::evaluate_function: "

/* ------------------------------------------------------------------------------------------- helpers */

static inline mtp_memory_timeline *timeline_of(const mtp_trace *t, const char *device)
{
    mtp_memory_timeline *m;
    assert_ok(mtp_memory_timeline_create(t, device, &m));
    return m;
}

static inline mtp_memory_info info_of(const mtp_memory_timeline *m)
{
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    assert_ok(mtp_memory_timeline_info(m, &info));
    return info;
}

typedef mtp_status writer(const mtp_memory_timeline *m, mtp_sink *sink, void *user);

static inline mtp_status summary(const mtp_memory_timeline *m, mtp_sink *sink, void *user)
{
    return mtp_memory_timeline_summary(m, -1, sink, user);
}

static inline void assert_writes(const mtp_memory_timeline *m, writer *write, const char *expected)
{
    collected c = {0};
    assert_ok(write(m, collect, &c));
    assert_string_equal(c.bytes, expected);
    collected_free(&c);
}

/* The category of the block at the address at the end, or of the last one there. */
static inline const char *category_at(const mtp_memory_timeline *m, uint64_t address)
{
    for (uint32_t i = m->block_count; i-- > 0;)
        if (m->blocks[i].address == address)
            return mtp_memory_category_text((mtp_memory_category)m->blocks[i].last);
    return "no such block";
}

static inline bool add_point(void *user, const mtp_memory_point *point)
{
    collected *c = user;
    char text[256];
    int n = snprintf(text, sizeof text, "%lld:", (long long)point->ns);
    for (int k = 0; k < MTP_MEMORY_CATEGORIES; k++)
        n += snprintf(text + n, sizeof text - (size_t)n, " %lld", (long long)point->bytes[k]);
    text[n++] = '\n';
    return collect(c, text, (size_t)n);
}

/* A temporary inside an op, a block that stays, one that goes; the peak is in the op. */
static inline mtp_trace *small_program(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    t->base_ns = 1700000000000000000;
    made_op(t, main, 1000, 9000, "aten::linear");
    made_op(t, main, 2000, 8000, "aten::addmm");
    made_memory(t, main, 3000, 0x10, 100); /* stays */
    made_memory(t, main, 4000, 0x20, 50);  /* temporary */
    made_memory(t, main, 7000, 0x20, -50);
    made_memory(t, main, 10000, 0x30, 20); /* in no op */
    made_memory(t, main, 10000, 0x40, 5);
    made_memory(t, main, 12000, 0x30, -20);
    return made_end(t);
}

/* Two steps of training as PyTorch's profiler sees them. */
static inline mtp_trace *training(void)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), engine = made_thread(t, 8);
    made_scope(t, main, 0, 900, "enumerate(DataLoader)#_Iter.__next__");
    made_op(t, main, 10, 90, "aten::stack");
    made_memory(t, main, 20, 0xb0, 7); /* goes with the scope */
    made_memory(t, main, 50, 0xa0, 640);
    made_memory(t, main, 95, 0xb0, -7);
    made_autograd(t, main, 1000, 1090, "aten::rand", 5, 0); /* made no node: linear did */
    made_memory(t, main, 1050, 0xa8, 8);
    made_autograd(t, main, 1100, 1900, "aten::linear", 5, 0);
    made_autograd(t, main, 1200, 1800, "aten::addmm", 6, 0);
    made_memory(t, main, 1300, 0xa1, 100); /* its output */
    made_memory(t, main, 1400, 0xa2, 10);
    made_memory(t, main, 1500, 0xa2, -10);
    made_op(t, main, 2000, 2100, "aten::bernoulli");
    made_memory(t, main, 2050, 0xa3, 30); /* saved: freed in the backward pass */
    made_op(t, engine, 3000, 3900, ENGINE "AddmmBackward0");
    made_autograd(t, engine, 3100, 3800, "AddmmBackward0", 6, 7);
    made_op(t, engine, 3200, 3300, "aten::mm");
    made_memory(t, engine, 3250, 0xa4, 50); /* stays: a gradient */
    made_memory(t, engine, 3260, 0xa5, 51); /* goes with the pass */
    made_memory(t, engine, 3270, 0xa9, 3);  /* goes with the op */
    made_memory(t, engine, 3750, 0xa9, -3);
    made_memory(t, engine, 3850, 0xa3, -30);
    made_op(t, engine, 4000, 4100, ENGINE "torch::autograd::AccumulateGrad");
    made_memory(t, engine, 4050, 0xa5, -51);
    made_scope(t, main, 5000, 6000, "Optimizer.step#Adam.step");
    made_op(t, main, 5100, 5200, "aten::zeros_like");
    made_memory(t, main, 5150, 0xa6, 60);
    made_op(t, main, 5300, 5400, "aten::sqrt");
    made_memory(t, main, 5350, 0xa7, 61);
    made_memory(t, main, 5500, 0xa7, -61);
    made_op(t, main, 7000, 7100, "aten::argmax");
    made_memory(t, main, 7050, 0xaa, 1);
    made_memory(t, main, 8000, 0xa4, -50);
    made_memory(t, main, 8000, 0xa1, -100);
    return made_end(t);
}
#endif
