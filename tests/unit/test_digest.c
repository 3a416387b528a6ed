/* Unit: analyze/digest and present/digest_*: sums are exact, files fit their limit and survive damage. */
#include "tests/made_trace.h"
#include <unistd.h>
#include <zlib.h>
#include "analyze/digest/digest.h"

/* ------------------------------------------------------------------------------------------- helpers */

static mtp_digest *digest_of(const mtp_trace *t, int64_t rank)
{
    mtp_digest_options o = MTP_DIGEST_OPTIONS_INIT;
    mtp_digest *d;
    o.rank = rank;
    o.job = "job";
    assert_ok(mtp_digest_create(t, &o, &d));
    return d;
}

/* Steps of 1 ms with ops of various lengths; what is in step `slow` takes `more` longer. Each step has an op of its own. */
static mtp_trace *made_steps(int steps, int ops, int slow, int64_t more)
{
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), stream = made_stream(t, 0, 7);
    int64_t at = 0;
    char name[64];
    made_op(t, main, -500, -100, "aten::before");
    for (int s = 0; s < steps; s++) {
        int64_t start = at;
        for (int i = 0; i < ops; i++) {
            int64_t ns = 100 + 37 * ((i * 7 + s) % 50);
            snprintf(name, sizeof name, i == 0 ? "aten::of_step_%d" : "aten::op_%d", i == 0 ? s : i % 20);
            made_op(t, main, at, at + ns, name);
            if (i % 3 == 1)
                made_op(t, main, at + 10, at + 60, "aten::empty");
            if (i % 4 == 2)
                made_span(t, stream, at, at + ns / 2, "a kernel", MTP__CATEGORY_KERNEL);
            at += ns + 10;
        }
        if (s == slow) {
            made_op(t, main, at, at + more, "aten::item");
            at += more;
        }
        snprintf(name, sizeof name, "ProfilerStep#%d", s);
        made_scope(t, main, start, at, name);
        at += 1000;
    }
    return made_end(t);
}

static void assert_near(double is, double should, double by)
{
    if (!(is - should <= by && should - is <= by))
        fail_msg("%.17g is not %.17g, give or take %g", is, should, by);
}

static const mtp_digest_op *op_named(const mtp_digest *d, size_t entry, const char *name, bool is_device,
                                     size_t *index)
{
    const mtp_digest_op *o;
    for (size_t i = 0; (o = mtp_digest_op_at(d, entry, i)) != NULL; i++)
        if (strcmp(o->name.bytes, name) == 0 && o->is_device == is_device) {
            if (index != NULL)
                *index = i;
            return o;
        }
    return NULL;
}

static mtp_digest *sum_of(const mtp_digest *d, uint32_t by)
{
    mtp_digest *sum;
    assert_ok(mtp_digest_sum(&d, 1, by, &sum));
    return sum;
}

static collected written(const mtp_digest *d, uint64_t most)
{
    collected c = {0};
    assert_ok(mtp_digest_write(d, most, collect, &c));
    return c;
}

static mtp_digest *read_back(const char *bytes, size_t length)
{
    const char *path = test_path("digest");
    FILE *f = fopen(path, "wb");
    mtp_digest *d = NULL;
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, length, f), length);
    fclose(f);
    mtp_status status = mtp_digest_read(path, &d);
    assert_true(status == MTP_OK || status == MTP_E_FORMAT);
    assert_true((status == MTP_OK) == (d != NULL));
    return d;
}

static void assert_same_op(const mtp_digest_op *a, const mtp_digest_op *b)
{
    assert_int_equal(a->calls, b->calls);
    assert_int_equal(a->total_ns, b->total_ns);
    assert_int_equal(a->self_ns, b->self_ns);
    assert_int_equal(a->device_ns, b->device_ns);
    assert_int_equal(a->min_ns, b->min_ns);
    assert_int_equal(a->max_ns, b->max_ns);
    assert_int_equal(a->names, b->names);
}

static void assert_same(const mtp_digest *a, const mtp_digest *b)
{
    const mtp_digest_op *o;
    assert_int_equal(mtp_digest_count(a), mtp_digest_count(b));
    for (size_t i = 0; i < mtp_digest_count(a); i++) {
        const mtp_digest_entry *x = mtp_digest_entry_at(a, i), *y = mtp_digest_entry_at(b, i);
        assert_string_equal(x->job, y->job);
        assert_string_equal(x->host, y->host);
        const int64_t
            is[] =
                {x->rank,      x->step,           x->start_ns,         x->wall_ns,        x->cpu_ns,
                 x->device_ns, x->idle_ns,        x->both_ns,          (int64_t)x->steps, (int64_t)x->calls,
                 x->self_ns,   x->self_device_ns, (int64_t)x->op_count},
            should[] = {
                y->rank,      y->step,           y->start_ns,         y->wall_ns,        y->cpu_ns,
                y->device_ns, y->idle_ns,        y->both_ns,          (int64_t)y->steps, (int64_t)y->calls,
                y->self_ns,   y->self_device_ns, (int64_t)y->op_count};
        assert_memory_equal(is, should, sizeof is);
        for (size_t k = 0; (o = mtp_digest_op_at(a, i, k)) != NULL; k++) {
            assert_string_equal(o->name.bytes, mtp_digest_op_at(b, i, k)->name.bytes);
            assert_same_op(o, mtp_digest_op_at(b, i, k));
        }
    }
}

/* ----------------------------------------------------------------------------------------------- sums */

static void the_steps_add_up_to_the_averages(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(12, 60, -1, 0);
    mtp_digest *d = digest_of(t, 3), *all = sum_of(d, 0);
    mtp_averages *rows;
    const mtp_row *r;
    size_t found = 0;
    assert_ok(mtp_averages_create(t, NULL, &rows));
    assert_int_equal(mtp_digest_count(d), 13); /* and outside */
    assert_int_equal(mtp_digest_count(all), 1);
    for (size_t i = 0; (r = mtp_averages_row(rows, i)) != NULL; i++) {
        size_t k;
        const mtp_digest_op *o = op_named(all, 0, r->key, r->is_device, &k);
        assert_non_null(o);
        assert_int_equal(o->calls, r->count);
        assert_near((double)o->total_ns, 1000 * (r->is_device ? r->device_time_total : r->cpu_time_total),
                    0.5);
        assert_near((double)o->self_ns,
                    1000 * (r->is_device ? r->self_device_time_total : r->self_cpu_time_total), 0.5);
        assert_near((double)o->min_ns, 1000 * r->min, 0.5);
        assert_near((double)o->max_ns, 1000 * r->max, 0.5);
        double error;
        int64_t p99 = mtp_digest_quantile(all, 0, k, 0.99, &error),
                p50 = mtp_digest_quantile(all, 0, k, 0.5, NULL);
        assert_true(error <= 0.04);
        assert_near((double)p99, 1000 * r->p99, 40 * r->p99 + 1);
        assert_near((double)p50, 1000 * r->p50, 40 * r->p50 + 1);
        found++;
    }
    assert_int_equal(mtp_digest_entry_at(all, 0)->op_count, found);
    assert_int_equal(mtp_digest_entry_at(all, 0)->steps, 12);
    mtp_averages_destroy(rows);
    mtp_digest_destroy(d);
    mtp_digest_destroy(all);
    mtp_trace_destroy(t);
}

static void each_step_has_what_began_in_it(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(3, 20, -1, 0);
    mtp_digest *d = digest_of(t, 5);
    const mtp_digest_entry *outside = mtp_digest_entry_at(d, 0);
    assert_int_equal(outside->step, MTP_DIGEST_OUTSIDE);
    assert_int_equal(outside->steps, 0);
    assert_int_equal(outside->wall_ns, 0);
    assert_int_equal(outside->calls, 1);
    assert_non_null(op_named(d, 0, "aten::before", false, NULL));
    mtp_steps *steps;
    assert_ok(mtp_steps_create(t, &steps));
    for (size_t i = 1; i < 4; i++) {
        char own[32], other[32];
        const mtp_digest_entry *e = mtp_digest_entry_at(d, i);
        const mtp_step_row *s = mtp_steps_row(steps, i - 1);
        snprintf(own, sizeof own, "aten::of_step_%zu", i - 1);
        snprintf(other, sizeof other, "aten::of_step_%zu", i % 3);
        assert_int_equal(e->rank, 5);
        assert_int_equal(e->step, i - 1);
        assert_int_equal(e->wall_ns, s->times.wall_ns);
        assert_int_equal(e->idle_ns, s->times.idle_ns);
        assert_non_null(op_named(d, i, own, false, NULL));
        assert_null(op_named(d, i, other, false, NULL));
    }
    assert_null(mtp_digest_entry_at(d, 4));
    mtp_steps_destroy(steps);
    mtp_digest_destroy(d);
    mtp_trace_destroy(t);
}

static void sums_do_not_depend_on_their_order(void **state)
{
    (void)state;
    mtp_trace *a = made_steps(5, 30, 2, 5000), *b = made_steps(5, 40, -1, 0);
    mtp_digest *x = digest_of(a, 0), *y = digest_of(b, 1), *whole[2], *parts[3], *at_once;
    const mtp_digest *xy[] = {x, y}, *yx[] = {y, x};
    assert_ok(mtp_digest_sum(xy, 2, MTP_DIGEST_BY_ALL, &whole[0]));
    assert_ok(mtp_digest_sum(yx, 2, MTP_DIGEST_BY_ALL, &whole[1]));
    assert_same(whole[0], whole[1]);
    assert_int_equal(mtp_digest_count(whole[0]), 12);
    parts[0] = sum_of(x, MTP_DIGEST_BY_STEP);
    parts[1] = sum_of(y, MTP_DIGEST_BY_STEP);
    assert_ok(mtp_digest_sum((const mtp_digest *const *)parts, 2, MTP_DIGEST_BY_STEP, &parts[2]));
    assert_ok(mtp_digest_sum(yx, 2, MTP_DIGEST_BY_STEP, &at_once));
    assert_same(parts[2], at_once);
    assert_int_equal(mtp_digest_entry_at(at_once, 1)->rank, MTP_DIGEST_ALL);
    assert_int_equal(mtp_digest_entry_at(at_once, 1)->steps, 2);
    for (int i = 0; i < 2; i++)
        mtp_digest_destroy(whole[i]);
    for (int i = 0; i < 3; i++)
        mtp_digest_destroy(parts[i]);
    mtp_digest_destroy(at_once);
    mtp_digest_destroy(x);
    mtp_digest_destroy(y);
    mtp_trace_destroy(a);
    mtp_trace_destroy(b);
}

/* ----------------------------------------------------------------------------------------------- files */

static void a_file_holds_what_was_written_and_files_can_be_concatenated(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(6, 60, -1, 0), *u = made_steps(8, 20, 1, 1000);
    mtp_digest *a = digest_of(t, 0), *b = digest_of(u, 1), *both; /* which have other names */
    const mtp_digest *ab[] = {a, b};
    collected first = written(a, 0), second = written(b, 0);
    mtp_digest *back = read_back(first.bytes, first.length);
    assert_same(a, back);
    assert_int_equal(mtp_digest_damaged(back), 0);
    for (size_t i = 0; i < mtp_digest_count(a); i++) /* their histograms, too, though perhaps coarser */
        for (size_t k = 0; k < mtp_digest_entry_at(a, i)->op_count; k++) {
            double error;
            int64_t is = mtp_digest_quantile(back, i, k, 0.75, &error),
                    was = mtp_digest_quantile(a, i, k, 0.75, NULL);
            assert_near((double)is, (double)was, (error + 0.04) * (double)was + 1);
        }
    mtp_digest_destroy(back);
    first.bytes = realloc(first.bytes, first.length + second.length);
    memcpy(first.bytes + first.length, second.bytes, second.length);
    back = read_back(first.bytes, first.length + second.length);
    assert_ok(mtp_digest_sum(ab, 2, MTP_DIGEST_BY_ALL, &both));
    assert_same(both, back);
    mtp_digest_destroy(both);
    mtp_digest_destroy(back);
    mtp_digest_destroy(a);
    mtp_digest_destroy(b);
    mtp_trace_destroy(t);
    mtp_trace_destroy(u);
    collected_free(&first);
    collected_free(&second);
}

static void assert_totals_equal(const mtp_digest *a, const mtp_digest *b)
{
    for (size_t i = 0; i < mtp_digest_count(a); i++) {
        const mtp_digest_entry *x = mtp_digest_entry_at(a, i), *y = mtp_digest_entry_at(b, i);
        assert_int_equal(x->calls, y->calls);
        assert_int_equal(x->self_ns, y->self_ns);
        assert_int_equal(x->self_device_ns, y->self_device_ns);
    }
}

static void an_entry_fits_its_limit_and_its_totals_stay_exact(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7), stream = made_stream(t, 0, 7);
    char name[64];
    for (int i = 0; i < 6000; i++) { /* 2,000 names */
        snprintf(name, sizeof name, "aten::a_long_name_%d", i % 2000);
        made_op(t, main, i * 1000, i * 1000 + 10 + i % 900, name);
        made_span(t, stream, i * 1000, i * 1000 + i % 700, name, MTP__CATEGORY_KERNEL);
    }
    made_end(t);
    mtp_digest *d = digest_of(t, 0);
    assert_int_equal(mtp_digest_entry_at(d, 0)->op_count, 4000);
    for (uint64_t most = 200; most < 40000; most = most * 2 + 1) {
        collected c = written(d, most), names = written(d, UINT64_MAX);
        /* The names are in a block of their own, the same whatever the limit. */
        mtp_digest *back = read_back(c.bytes, c.length), *whole = read_back(names.bytes, names.length);
        assert_true(c.length <= 8 + 2000 * 26 + 16 + most);
        assert_totals_equal(d, back);
        assert_same(d, whole);
        const mtp_digest_entry *e = mtp_digest_entry_at(back, 0);
        const mtp_digest_op *last = mtp_digest_op_at(back, 0, e->op_count - 1), *o;
        assert_string_equal(last->name.bytes, "(others)");
        double error; /* it has no histogram */
        assert_int_equal(mtp_digest_quantile(back, 0, e->op_count - 1, 0.99, &error), -1);
        uint64_t names_in_all = 0;
        for (size_t i = 0; (o = mtp_digest_op_at(back, 0, i)) != NULL; i++)
            names_in_all += o->names;
        assert_int_equal(names_in_all, 4000);
        /* Written again, it stays what it is. */
        collected again = written(back, most);
        mtp_digest *twice = read_back(again.bytes, again.length);
        assert_same(back, twice);
        mtp_digest_destroy(twice);
        mtp_digest_destroy(back);
        mtp_digest_destroy(whole);
        collected_free(&again);
        collected_free(&c);
        collected_free(&names);
    }
    mtp_digest_destroy(d);
    mtp_trace_destroy(t);
}

/* The true value is within the error that is stated, whatever was added in which order. */
static void assert_quantiles(const mtp_digest *is, size_t entry, const mtp_digest *exact, size_t of)
{
    const mtp_digest_op *o;
    for (size_t i = 0, k = 0; (o = mtp_digest_op_at(is, entry, i)) != NULL; i++)
        for (int percent = 5; percent < 100 && o->names == 1; percent += 15) {
            double error;
            int64_t got = mtp_digest_quantile(is, entry, i, percent / 100.0, &error), wanted;
            assert_non_null(op_named(exact, of, o->name.bytes, o->is_device, &k));
            wanted = mtp_digest_quantile(exact, of, k, percent / 100.0, NULL);
            if ((double)llabs(got - wanted) > (error + 0.04) * (double)wanted + 1)
                fail_msg("%s: %d%% is %lld, not %lld, with an error of %g", o->name.bytes, percent,
                         (long long)got, (long long)wanted, error);
        }
}

static void quantiles_are_as_exact_as_they_say(void **state)
{
    (void)state;
    mtp_trace *t = made_begin();
    uint32_t main = made_thread(t, 7);
    int64_t at = 0;
    char name[32];
    for (int i = 0; i < 20000; i++) {
        int64_t ns = 200 + (int64_t)(test_random() % 40) * (int64_t)(test_random() % 40) * 50;
        snprintf(name, sizeof name, "aten::op_%d", i % 40);
        made_op(t, main, at, at + ns, name);
        at += ns + 5;
    }
    made_end(t);
    mtp_digest *fine = digest_of(t, 0);
    collected c = written(fine, 3500); /* one bucket per octave or two, and all ops */
    mtp_digest *coarse = read_back(c.bytes, c.length);
    assert_int_equal(mtp_digest_entry_at(coarse, 0)->op_count, 40);
    assert_quantiles(coarse, 0, fine, 0);
    assert_true(coarse->part[0].shift > 1 && fine->part[0].shift == 0);
    const mtp_digest *order[] = {fine, coarse, fine};
    mtp_digest *sum;
    assert_ok(
        mtp_digest_sum(order, 3, MTP_DIGEST_BY_ALL, &sum)); /* three times the same: the same quantiles */
    assert_quantiles(sum, 0, fine, 0);
    assert_int_equal(sum->part[0].shift, coarse->part[0].shift);
    mtp_digest_destroy(sum);
    mtp_digest_destroy(coarse);
    mtp_digest_destroy(fine);
    mtp_trace_destroy(t);
    collected_free(&c);
}

static void damage_costs_what_it_hits_and_is_counted(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(3, 12, -1, 0);
    mtp_digest *d = digest_of(t, 0);
    collected c = written(d, 0);
    for (size_t length = 0; length < c.length; length++) {
        mtp_digest *back = read_back(c.bytes, length);
        assert_true((length >= 8) == (back != NULL));
        if (back != NULL)
            assert_true(mtp_digest_count(back) < mtp_digest_count(d));
        mtp_digest_destroy(back);
    }
    char *twice = malloc(2 * c.length);
    for (size_t at = 8; at < c.length;
         at++) { /* the second file is read whole, whatever is damaged in the first */
        memcpy(twice, c.bytes, c.length);
        memcpy(twice + c.length, c.bytes, c.length);
        twice[at] = (char)(twice[at] ^ 1 << at % 8);
        mtp_digest *back = read_back(twice, 2 * c.length);
        assert_non_null(back);
        assert_int_equal(mtp_digest_damaged(back), 1);
        assert_int_equal(mtp_digest_count(back), mtp_digest_count(d));
        mtp_digest_destroy(back);
    }
    free(twice);
    assert_null(read_back("{\"traceEvents\": []}", 19));
    mtp_digest_destroy(d);
    mtp_trace_destroy(t);
    collected_free(&c);
}

/* Bytes that a checksum does not protect from: whoever writes them may choose any. */
static void hostile_blocks_are_refused(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(2, 10, -1, 0);
    mtp_digest *d = digest_of(t, 0);
    collected c = written(d, 0);
    for (int run = 0; run < test_scaled(3000); run++) {
        unsigned char *p = (unsigned char *)c.bytes, *copy = malloc(c.length);
        memcpy(copy, p, c.length);
        for (size_t at = 8; at < c.length;) { /* each block: change a few bytes, and seal it again */
            size_t n = at + 1, length = 0;
            unsigned shift = 0;
            for (; p[n] >= 128; n++, shift += 7)
                length |= (size_t)(p[n] & 127) << shift;
            length |= (size_t)p[n++] << shift;
            for (int k = 0; k < 3; k++)
                copy[n + test_random() % length] = (unsigned char)test_random();
            uint32_t crc = (uint32_t)crc32_z(0, copy + at, n + length - at);
            memcpy(copy + n + length, &crc, 4);
            at = n + length + 4;
        }
        mtp_digest *back = read_back((char *)copy, c.length), *sum = NULL;
        assert_non_null(back);
        for (uint32_t e = 0; e < back->part_count; e++)
            for (uint32_t k = 0; k < back->part[e].shown.op_count; k++) {
                const mtp__digest_row *r = &back->row[back->part[e].first_row + k];
                for (uint32_t b = 0; b < r->bucket_count; b++)
                    assert_true(back->bucket[r->first_bucket + b].bucket < (uint32_t)MTP__BUCKETS >>
                                back->part[e].shift);
            }
        collected out = {0};
        assert_ok(mtp_digest_sum((const mtp_digest *const *)&back, 1, 0, &sum));
        assert_ok(mtp_digest_text(back, -1, collect, &out));
        assert_ok(mtp_digest_json(back, -1, collect, &out));
        mtp_digest_destroy(sum);
        mtp_digest_destroy(back);
        collected_free(&out);
        free(copy);
    }
    mtp_digest_destroy(d);
    mtp_trace_destroy(t);
    collected_free(&c);
}

static size_t put_block(unsigned char *to, unsigned char kind, const unsigned char *bytes,
                        unsigned char length)
{
    to[0] = kind;
    to[1] = length;
    memcpy(to + 2, bytes, length);
    uint32_t crc = (uint32_t)crc32_z(0, to, 2u + length);
    memcpy(to + 2 + length, &crc, 4);
    return 6u + length;
}

static void a_bucket_that_does_not_exist_is_refused(void **state)
{
    (void)state;
    /* job .. both, shift 0, one op: name 1, 5 calls, no times, one bucket: its number in two bytes, 5 calls */
    unsigned char entry[] = {0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 5, 0, 0, 0, 0, 0, 1, 0, 0, 5};
    const unsigned char name[] = {1, 'a'};
    unsigned char file[128] = "MTPDIG1\n";
    for (int wrong = 0; wrong < 2; wrong++) {
        entry[21] = (unsigned char)((MTP__BUCKETS - 1 + wrong) % 128 + 128);
        entry[22] = (unsigned char)((MTP__BUCKETS - 1 + wrong) / 128);
        size_t length = 8 + put_block(file + 8, 'N', name, sizeof name);
        length += put_block(file + length, 'E', entry, sizeof entry);
        mtp_digest *d = read_back((char *)file, length);
        assert_int_equal(mtp_digest_count(d), !wrong);
        assert_int_equal(mtp_digest_damaged(d), wrong);
        mtp_digest_destroy(d);
    }
}

/* ------------------------------------------------------------------------------------------------- odd */

static void the_slow_step_and_its_op_are_named(void **state)
{
    (void)state;
    mtp_digest *d[4], *all;
    for (int rank = 0; rank < 4; rank++) {
        mtp_trace *t = made_steps(10, 60, rank == 2 ? 7 : -1, 300000);
        d[rank] = digest_of(t, rank);
        mtp_trace_destroy(t);
    }
    assert_ok(mtp_digest_sum((const mtp_digest *const *)d, 4, MTP_DIGEST_BY_ALL, &all));
    mtp__digest_odd *odd;
    size_t count;
    assert_ok(mtp__digest_odd_steps(all, &odd, &count));
    assert_int_equal(count, 1);
    assert_int_equal(mtp_digest_entry_at(all, odd->entry)->rank, 2);
    assert_int_equal(mtp_digest_entry_at(all, odd->entry)->step, 7);
    assert_string_equal(odd->reasons[0].name.bytes, "aten::item");
    assert_int_equal(odd->reasons[0].more_ns, 300000);
    assert_int_equal(odd->reasons[0].more_calls, 1);
    mtp__free(odd);
    collected out = {0};
    assert_ok(mtp_digest_text(all, 5, collect, &out));
    assert_non_null(strstr(out.bytes, "1 step took far longer than most of the job"));
    assert_non_null(strstr(out.bytes, "aten::item +300us (1 more call)"));
    collected_free(&out);
    for (int rank = 0; rank < 4; rank++)
        mtp_digest_destroy(d[rank]);
    mtp_digest_destroy(all);
}

/* A rank that was restarted from a checkpoint repeats steps; they are not twice as long. */
static void a_repeated_step_is_as_long_as_its_mean(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(20, 30, 11, 300000), *u = made_steps(5, 30, -1, 0);
    mtp_digest *d[2] = {digest_of(t, 0), digest_of(u, 0)}, *all;
    assert_ok(mtp_digest_sum((const mtp_digest *const *)d, 2, MTP_DIGEST_BY_ALL, &all));
    mtp__digest_odd *odd;
    size_t count;
    assert_ok(mtp__digest_odd_steps(all, &odd, &count));
    assert_int_equal(count, 1);
    assert_int_equal(mtp_digest_entry_at(all, odd->entry)->step, 11);
    assert_string_equal(odd->reasons[0].name.bytes, "aten::item");
    mtp__free(odd);
    collected out = {0};
    assert_ok(mtp_digest_text(all, 5, collect, &out));
    assert_non_null(strstr(out.bytes, "(rank 0, step 11)"));
    assert_non_null(strstr(out.bytes, "5 steps were recorded more than once"));
    collected_free(&out);
    for (int i = 0; i < 2; i++)
        mtp_digest_destroy(d[i]);
    mtp_digest_destroy(all);
    mtp_trace_destroy(t);
    mtp_trace_destroy(u);
}

static void equal_steps_are_not_odd(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(40, 50, -1, 0);
    mtp_digest *d = digest_of(t, 0);
    mtp__digest_odd *odd;
    size_t count;
    assert_ok(mtp__digest_odd_steps(d, &odd, &count));
    assert_int_equal(count, 0);
    mtp__free(odd);
    mtp_digest_destroy(d);
    mtp_trace_destroy(t);
}

/* ---------------------------------------------------------------------------------------------- faults */

static void running_out_of_memory_is_an_error_and_leaks_nothing(void **state)
{
    (void)state;
    mtp_trace *t = made_steps(9, 12, 4, 200000);
    const char *path = test_path("swept");
    for (int nth = 1, failed = 1; failed > 0; nth++) {
        long live = mtp__alloc_live();
        mtp_digest *d = NULL, *sum = NULL, *back = NULL;
        collected out = {0};
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, false);
        mtp_status status = mtp_digest_create(t, NULL, &d);
        if (status == MTP_OK)
            status = mtp_digest_sum((const mtp_digest *const *)&d, 1, MTP_DIGEST_BY_STEP, &sum);
        if (status == MTP_OK)
            status = mtp_digest_write(sum, 300, collect, &out);
        if (status == MTP_OK)
            status = mtp_digest_text(d, -1, collect, &out);
        if (status == MTP_OK)
            status = mtp_digest_json(d, -1, collect, &out);
        failed = mtp__fault_stop();
        assert_int_equal(status, failed > 0 ? MTP_E_NOMEM : MTP_OK);
        mtp_digest_destroy(d);
        mtp_digest_destroy(sum);
        mtp_digest_destroy(back);
        collected_free(&out);
        assert_int_equal(mtp__alloc_live(), live);
    }
    mtp_digest *d = digest_of(t, 0);
    collected c = written(d, 0);
    mtp_digest_destroy(read_back(c.bytes, c.length));
    FILE *f = fopen(path, "wb");
    fwrite(c.bytes, 1, c.length, f);
    fclose(f);
    for (int nth = 1, failed = 1; failed > 0; nth++) {
        mtp_digest *back;
        mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP | 1u << MTP__FAULT_OPEN |
                            1u << MTP__FAULT_READ,
                        nth, false);
        mtp_status status = mtp_digest_read(path, &back);
        failed = mtp__fault_stop();
        assert_true((status == MTP_OK) == (failed == 0));
        mtp_digest_destroy(back);
    }
    mtp_digest_destroy(d);
    mtp_trace_destroy(t);
    collected_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_steps_add_up_to_the_averages),
        TEST(each_step_has_what_began_in_it),
        TEST(sums_do_not_depend_on_their_order),
        TEST(a_file_holds_what_was_written_and_files_can_be_concatenated),
        TEST(an_entry_fits_its_limit_and_its_totals_stay_exact),
        TEST(quantiles_are_as_exact_as_they_say),
        TEST(damage_costs_what_it_hits_and_is_counted),
        TEST(a_bucket_that_does_not_exist_is_refused),
        TEST(hostile_blocks_are_refused),
        TEST(the_slow_step_and_its_op_are_named),
        TEST(a_repeated_step_is_as_long_as_its_mean),
        TEST(equal_steps_are_not_odd),
        TEST(running_out_of_memory_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
