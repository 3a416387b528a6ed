/* Unit: several recordings of one machine are read as one trace, a process per row (src/trace/join). */
#define _GNU_SOURCE
#include <signal.h>
#include "tests/unit/recordings.h"

/* ----------------------------------------------------------------------------------------- who is where */

/* run.mtp and run.mtp.workers/{1,2}.mtp */
static const char *a_run(void)
{
    const char *folder = new_folder("");
    static char spool[512];
    snprintf(spool, sizeof spool, "%s", in_folder(folder, "run.mtp"));
    assert_int_equal(mkdir(in_folder(folder, "run.mtp.workers"), 0700), 0);
    record_here(spool, record_scopes, "main's own");
    record_there(in_folder(folder, "run.mtp.workers/1.mtp"), record_scopes, "first's own");
    record_there(in_folder(folder, "run.mtp.workers/2.mtp"), record_scopes, "second's own");
    return spool;
}

static void a_spool_is_read_with_its_workers_a_process_per_row(void **state)
{
    (void)state;
    const char *spool = a_run();
    mtp_trace *t = open_all(spool);
    assert_sound(t);
    assert_int_equal(t->span_count, 6);
    assert_int_equal(t->instant_count, 3);
    assert_int_equal(count_named(t, "shared"), 3);
    assert_int_equal(t->pid, getpid());
    int64_t pid[3];
    static const char *const own[] = {"main's own", "first's own", "second's own"};
    for (int i = 0; i < 3; i++) {
        uint32_t span = find_named(t, own[i], 0);
        pid[i] = track_of(t, span)->pid;
        assert_int_equal(track_of(t, t->parent[span])->pid, pid[i]);
        assert_int_equal(t->name[t->parent[span]], mtp__trace_find_text(t, "shared"));
        assert_int_equal(recording_of(t, (size_t)i).pid, pid[i]);
        assert_string_equal(recording_of(t, (size_t)i).problem, "");
        assert_int_equal(recording_of(t, (size_t)i).info.spans, 2);
        assert_int_equal(recording_of(t, (size_t)i).info.first_ns, t->start[t->parent[span]]);
        assert_int_equal(recording_of(t, (size_t)i).info.outcome, MTP_OUTCOME_STOPPED);
    }
    assert_int_equal(pid[0], getpid());
    assert_true(pid[1] != pid[0] && pid[2] != pid[1] && pid[2] != pid[0]);
    assert_int_equal(mtp_trace_recording_count(t), 3);
    assert_int_equal(recording_of(t, 1).parent, getpid());
    assert_contains(recording_of(t, 1).command, "test_join");
    assert_contains(recording_of(t, 2).file, "run.mtp.workers/2.mtp");
    char child[64];
    snprintf(child, sizeof child, "(child of %ld)", (long)getpid());
    assert_int_equal(t->process_count, 3);
    assert_contains(mtp__trace_get_text(t, t->processes[0].name).bytes, "test_join");
    assert_null(strstr(mtp__trace_get_text(t, t->processes[0].name).bytes, "child of"));
    assert_contains(mtp__trace_get_text(t, t->processes[2].name).bytes, child);
    mtp_trace_destroy(t);
}

static void a_folder_is_read_like_a_spool_and_its_main_process_comes_first(void **state)
{
    (void)state;
    const char *spool = a_run();
    char folder[512];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(spool, '/') - spool), spool);
    mtp_trace *t = open_all(folder);
    assert_int_equal(t->span_count, 6);
    assert_int_equal(t->pid, getpid());
    assert_string_equal(recording_of(t, 0).file, spool);
    mtp_trace_destroy(t);
    t = open_all(in_folder(folder, "run.mtp.workers"));
    assert_int_equal(t->span_count, 4);
    assert_contains(recording_of(t, 0).file, "/1.mtp"); /* none is the other's child: the first */
    mtp_trace_destroy(t);
}

static void the_main_process_of_a_folder_is_no_others_child_even_if_it_starts_last(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_there(in_folder(folder, "child.mtp"), record_scopes, "child's own");
    record_here(in_folder(folder, "parent.mtp"), record_scopes, "parent's own");
    mtp_trace *t = open_all(folder);
    assert_int_equal(t->pid, getpid());
    assert_contains(recording_of(t, 0).file, "parent.mtp");
    assert_true(recording_of(t, 1).info.first_ns < recording_of(t, 0).info.first_ns);
    assert_sound(t);
    mtp_trace_destroy(t);
}

static void one_process_can_be_chosen(void **state)
{
    (void)state;
    const char *spool = a_run();
    mtp_trace *t = open_all(spool), *one;
    mtp_open_options o = MTP_OPEN_OPTIONS_INIT;
    o.process = recording_of(t, 2).pid;
    assert_ok(mtp_trace_open(spool, &o, &one));
    assert_int_equal(one->span_count, 2);
    assert_int_equal(one->pid, o.process);
    assert_int_equal(count_named(one, "second's own"), 1);
    mtp_trace_destroy(one);
    o.process = 1;
    assert_int_equal(mtp_trace_open(spool, &o, &one), MTP_E_ARG);
    assert_says("no recording of process 1");
    assert_null(one);
    assert_int_equal(mtp_trace_open(recording_of(t, 1).file, &o, &one), MTP_E_ARG); /* a single file */
    o.process = recording_of(t, 1).pid;
    assert_ok(mtp_trace_open(recording_of(t, 1).file, &o, &one));
    assert_int_equal(one->span_count, 2);
    mtp_trace_destroy(one);
    o = (mtp_open_options)MTP_OPEN_OPTIONS_INIT;
    o.alone = true;
    assert_ok(mtp_trace_open(spool, &o, &one));
    assert_int_equal(one->span_count, 2);
    assert_int_equal(mtp_trace_recording_count(one), 1);
    assert_string_equal(recording_of(one, 0).file, spool);
    assert_contains(recording_of(one, 0).command, "test_join");
    mtp_trace_destroy(one);
    mtp_trace_destroy(t);
}

static void two_recordings_of_one_pid_are_two_rows(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_here(in_folder(folder, "a.mtp"), record_scopes, "before exec");
    record_here(in_folder(folder, "b.mtp"), record_scopes, "after exec");
    mtp_trace *t = open_all(folder);
    const mtp__track *a = track_of(t, find_named(t, "before exec", 0)),
                     *b = track_of(t, find_named(t, "after exec", 0));
    assert_int_equal(a->pid, b->pid);
    assert_int_equal(a->pid_text, 0);
    assert_int_not_equal(b->pid_text, 0);
    assert_int_equal(t->process_count, 2);
    assert_int_equal(t->processes[1].pid_text, b->pid_text);
    mtp_trace_destroy(t);
}

/* ---------------------------------------------------------------------------------------------- files */

static bool count_file(void *user, const char *file)
{
    (void)file;
    return ++*(int *)user < 100;
}

static void only_recordings_are_listed_and_each_once(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_here(in_folder(folder, "a.mtp"), record_scopes, "a");
    record_here(in_folder(folder, "a.mtp.77"), record_scopes, "of a followed fork");
    record_here(in_folder(folder, ".b.mtp"), record_scopes, "hidden");
    record_here(in_folder(folder, "c.mtp.txt"), record_scopes, "other suffix");
    test_spew(in_folder(folder, "readme.md"), "text", 4);
    assert_int_equal(symlink("a.mtp", in_folder(folder, "link.mtp")), 0);
    assert_int_equal(symlink("nowhere", in_folder(folder, "gone.mtp")), 0);
    assert_int_equal(symlink(".", in_folder(folder, "a.mtp.workers")), 0);
    assert_int_equal(mkdir(in_folder(folder, "folder.mtp"), 0700), 0);
    int files = 0;
    assert_ok(mtp_trace_files(folder, count_file, &files));
    assert_int_equal(files, 2);
    mtp_trace *t = open_all(folder);
    assert_int_equal(mtp_trace_recording_count(t), 2);
    assert_int_equal(count_named(t, "a"), 1);
    assert_int_equal(count_named(t, "of a followed fork"), 1);
    mtp_trace_destroy(t);
    files = 0;
    assert_ok(mtp_trace_files(in_folder(folder, "readme.md"), count_file, &files));
    assert_int_equal(files, 1);
    assert_int_equal(mtp_trace_open(new_folder(""), NULL, &t), MTP_E_FORMAT);
    assert_says("no recordings");
}

static void files_that_cannot_be_read_do_not_spoil_the_rest(void **state)
{
    (void)state;
    const char *spool = a_run();
    char path[600];
    snprintf(path, sizeof path, "%s.workers/text.mtp", spool);
    test_spew(path, "not a spool", 11);
    snprintf(path, sizeof path, "%s.workers/empty.mtp", spool);
    test_spew(path, "", 0);
    mtp_trace *t = open_all(spool);
    assert_int_equal(t->span_count, 6);
    assert_int_equal(mtp_trace_recording_count(t), 5);
    for (size_t i = 0; i < 5; i++) {
        mtp_recording_info r = recording_of(t, i);
        bool bad = strstr(r.file, "text.mtp") != NULL || strstr(r.file, "empty.mtp") != NULL;
        assert_int_equal(r.problem[0] != 0, bad);
        assert_int_equal(bad, i >= 3);
    }
    mtp_trace_destroy(t);
    test_spew(spool, "not a spool", 11);
    t = open_all(spool);
    assert_int_equal(t->span_count, 4);
    assert_string_equal(recording_of(t, 0).file, spool);
    assert_contains(recording_of(t, 0).problem, "not");
    mtp_trace_destroy(t);
    assert_int_equal(unlink(spool), 0);
    t = open_all(spool); /* `mtprof run` was killed before it moved the main process's file there */
    assert_int_equal(t->span_count, 4);
    assert_int_equal(mtp_trace_recording_count(t), 5);
    assert_contains(recording_of(t, 0).problem, "No such file");
    assert_true(t->step_count > 0 && t->pid == recording_of(t, 1).pid);
    mtp_trace_destroy(t);
    snprintf(path, sizeof path, "%s.workers/1.mtp", spool);
    assert_int_equal(truncate(path, 100), 0);
    snprintf(path, sizeof path, "%s.workers/2.mtp", spool);
    assert_int_equal(truncate(path, 100), 0);
    assert_int_not_equal(mtp_trace_open(spool, NULL, &t), MTP_OK);
    assert_null(t);
}

static void a_copy_of_a_recording_is_not_read_twice(void **state)
{
    (void)state;
    const char *spool = a_run();
    char path[600];
    snprintf(path, sizeof path, "%s.workers/again.mtp", spool);
    assert_ok(mtp_recover(spool, path, NULL));
    mtp_trace *t = open_all(spool);
    assert_int_equal(t->span_count, 6);
    assert_contains(recording_of(t, 3).file, "again.mtp");
    assert_contains(recording_of(t, 3).problem, "copy of");
    mtp_trace_destroy(t);
}

static void nothing(void *arg)
{
    (void)arg;
}

static void a_recording_without_events_adds_none(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_here(in_folder(folder, "a.mtp"), nothing, NULL);
    record_there(in_folder(folder, "b.mtp"), record_scopes, "b");
    record_there(in_folder(folder, "c.mtp"), nothing, NULL);
    mtp_trace *t = open_all(folder);
    assert_sound(t);
    assert_int_equal(t->span_count, 2);
    assert_int_equal(t->first_ns, t->start[0]);
    mtp_trace_destroy(t);
}

/* ----------------------------------------------------------------------------------------------- totals */

static void record_and_die(void *arg)
{
    MTP_SCOPE ("never ends") {
        record_scopes(arg);
        kill(getpid(), SIGKILL);
    }
}

static void ledgers_add_up_and_the_worst_outcome_is_told(void **state)
{
    (void)state;
    const char *spool = a_run();
    char path[600];
    snprintf(path, sizeof path, "%s.workers/killed.mtp", spool);
    recording_child c = {path, record_and_die, "killed's own"};
    test_child(record_in_child, &c, 20);
    snprintf(path, sizeof path, "%s.workers/last.mtp", spool);
    record_there(path, record_scopes, "last's own");
    mtp_trace *t = open_all(spool);
    mtp_trace_info all = MTP_TRACE_INFO_INIT, counted = MTP_TRACE_INFO_INIT;
    assert_ok(mtp_trace_get_info(t, &all));
    assert_int_equal(all.outcome, MTP_OUTCOME_RECOVERED);
    uint64_t emitted = 0, spans = 0, unfinished = 0;
    for (size_t i = 0; i < 5; i++) {
        mtp_recording_info r = recording_of(t, i);
        bool killed = strstr(r.file, "killed.mtp") != NULL;
        assert_int_equal(r.info.outcome, killed ? MTP_OUTCOME_RECOVERED : MTP_OUTCOME_STOPPED);
        assert_int_equal(r.info.has_ledger, !killed);
        emitted += r.info.ledger.emitted;
        spans += r.info.spans;
        unfinished += r.info.unfinished;
    }
    assert_int_equal(all.ledger.emitted, emitted);
    assert_true(emitted > 0);
    assert_int_equal(all.spans, spans);
    assert_int_equal(all.unfinished, 1);
    assert_int_equal(unfinished, 1);
    assert_ok(mtp_trace_file_info(spool, NULL, &counted));
    assert_int_equal(counted.spans, all.spans);
    assert_int_equal(counted.instants, all.instants);
    assert_int_equal(counted.tracks, all.tracks);
    assert_int_equal(counted.steps, all.steps);
    assert_int_equal(counted.ledger.emitted, all.ledger.emitted);
    assert_int_equal(counted.outcome, all.outcome);
    assert_int_equal(counted.base_ns, all.base_ns);
    assert_int_equal(counted.pid, all.pid);
    assert_true(llabs(counted.first_ns - all.first_ns) < 100000 &&
                llabs(counted.last_ns - all.last_ns) < 100000);
    mtp_trace_destroy(t);
}

static void averages_are_over_all_processes(void **state)
{
    (void)state;
    mtp_trace *t = open_all(a_run());
    mtp_averages *rows;
    assert_ok(mtp_averages_create(t, NULL, &rows));
    bool found = false;
    for (size_t i = 0; i < mtp_averages_count(rows); i++) {
        const mtp_row *row = mtp_averages_row(rows, i);
        if (strcmp(row->key, "shared") == 0) {
            assert_int_equal(row->count, 3);
            found = true;
        }
    }
    assert_true(found);
    mtp_averages_destroy(rows);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------- what stays apart */

static uint64_t launch(void)
{
    mtp_op call = MTP_OP_INIT(MTP_NAME("enqueue"));
    call.kind = MTP_SCOPE_RUNTIME;
    call.correlation = mtp_correlation_next();
    mtp_op_begin(&call);
    mtp_op_end(&call);
    return call.correlation;
}

/* Device work with the ids that every process counts from 1, inside an annotation of its own name. */
static void record_device_work(void *arg)
{
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = "A device";
    mtp_device_describe(MTP_DEVICE_NPU(0), &info);
    MTP_SCOPE_TEXT((const char *)arg)
    {
        for (int i = 0; i < 3; i++) {
            mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
            mtp_op_begin(&op);
            mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
            work.correlation = launch();
            mtp_op_end(&op);
            work.clock = MTP_CLOCK_MONOTONIC;
            work.start = mtp_now_ns();
            work.end = work.start + 100;
            mtp_device_event(&work);
        }
    }
}

static void device_work_stays_with_the_process_that_launched_it(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_there(in_folder(folder, "a.mtp"), record_device_work, "scope a");
    record_there(in_folder(folder, "b.mtp"), record_device_work, "scope b");
    mtp_trace *t = open_all(folder);
    assert_sound(t);
    assert_int_equal(count_named(t, "kernel"), 6);
    uint64_t used[6];
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t work = find_named(t, "kernel", i), op = t->launcher[work];
        assert_int_not_equal(op, MTP__NONE);
        assert_int_equal(t->name[op], mtp__trace_find_text(t, "aten::mm"));
        assert_int_equal(track_of(t, op)->part, track_of(t, work)->part);
        assert_true(t->start[op] <= t->start[work]);
        uint32_t mirror = t->parent[work]; /* the annotation on the stream, of the same process */
        assert_int_equal(t->category[mirror], MTP__CATEGORY_GPU_USER_ANNOTATION);
        assert_int_equal(t->name[mirror], t->name[t->parent[op]]);
        assert_int_equal(t->launcher[mirror], t->parent[op]);
        used[i] = mtp__trace_detail(t, work)->correlation;
        for (uint32_t k = 0; k < i; k++)
            assert_true(used[k] != used[i]);
    }
    assert_int_equal(recording_of(t, 1).info.device_spans, 4);
    mtp_trace_destroy(t);
}

/* The same addresses in each process: 1000 bytes are freed, 24 stay. */
static void record_memory(void *arg)
{
    int64_t before = *(const int64_t *)arg;
    char *p = (char *)0x7000;
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::empty"));
    mtp_op_begin(&op);
    mtp_memory_event(MTP_DEVICE_CPU, p, 1000, (uint64_t)before + 1000, 4096);
    mtp_memory_event(MTP_DEVICE_CPU, p + 4096, 24, (uint64_t)before + 1024, 4096);
    mtp_memory_tag(MTP_DEVICE_CPU, p + 4096, MTP_MEMORY_PARAMETER);
    mtp_op_end(&op);
    mtp_memory_event(MTP_DEVICE_CPU, p, -1000, (uint64_t)before + 24, 4096);
}

static void check_memory_of_three(const mtp_trace *t)
{
    mtp_memory_timeline *m;
    mtp_memory_info info = MTP_MEMORY_INFO_INIT;
    assert_ok(mtp_memory_timeline_create(t, NULL, &m));
    assert_ok(mtp_memory_timeline_info(m, &info));
    assert_int_equal(info.allocations, 6);
    assert_int_equal(info.frees, 3);
    assert_int_equal(info.lost_events, 0);
    assert_int_equal(info.preexisting_bytes, 100 + 200 + 300);
    assert_int_equal(info.end_bytes, 600 + 3 * 24);
    assert_int_equal(info.unaccounted_bytes, 0);
    assert_int_equal(info.peak_bytes, 600 + 2 * 24 + 1024);
    assert_int_equal(info.peak_by_category[MTP_MEMORY_PARAMETER], 3 * 24);
    mtp_memory_timeline_destroy(m);
}

static void an_address_in_two_processes_is_two_blocks(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    int64_t before[] = {100, 200, 300};
    record_here(in_folder(folder, "a.mtp"), record_memory, &before[0]);
    record_there(in_folder(folder, "b.mtp"), record_memory, &before[1]);
    record_here(in_folder(folder, "c.mtp"), record_memory, &before[2]); /* the pid of the first */
    mtp_trace *t = open_all(folder), *again, *part;
    check_memory_of_three(t);
    assert_ok(mtp_trace_export(t, in_folder(folder, "all.json"), NULL));
    again = open_all(in_folder(folder, "all.json"));
    check_memory_of_three(again);
    mtp_trace_destroy(again);
    mtp_cut_options cut = MTP_CUT_OPTIONS_INIT;
    cut.name = "aten::empty";
    assert_ok(mtp_trace_cut(t, &cut, &part));
    assert_int_equal(part->tag_count, 3);
    assert_int_equal(part->process_count, 3);
    mtp_trace_destroy(part);
    cut.process = recording_of(t, 1).pid;
    assert_ok(mtp_trace_cut(t, &cut, &part));
    assert_int_equal(part->tag_count, 1);
    assert_int_equal(part->process_count, 1);
    assert_int_equal(part->pid, cut.process);
    assert_int_equal(part->span_count, 1);
    mtp_trace_destroy(part);
    cut.process = 1;
    assert_int_equal(mtp_trace_cut(t, &cut, &part), MTP_E_ARG);
    assert_says("there is no process 1");
    mtp_trace_destroy(t);
}

/* Forward and backward ops whose sequence numbers and threads are the same in each recording. */
static void record_backward(void *arg)
{
    const char *args = arg;
    for (int backward = 0; backward < 2; backward++) {
        mtp_op op = MTP_OP_INIT(backward ? MTP_NAME("MmBackward0") : MTP_NAME("aten::mm"));
        op.sequence = 7;
        op.kind = backward ? MTP_SCOPE_BACKWARD : MTP_SCOPE_OP;
        op.forward_thread = backward ? (uint64_t)getpid() : 0;
        op.args = args;
        mtp_op_begin(&op);
        mtp_op_end(&op);
    }
}

static uint32_t arrows_of(const char *json)
{
    uint32_t arrows = 0;
    for (const char *at = json; (at = strstr(at, "\"cat\": \"fwdbwd\"")) != NULL; at++)
        arrows++;
    return arrows;
}

static void a_backward_op_belongs_to_the_forward_op_of_its_own_recording(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_here(in_folder(folder, "a.mtp"), record_backward, "a");
    record_here(in_folder(folder, "b.mtp"), record_backward, "b");
    mtp_trace *t = open_all(folder);
    assert_ok(mtp_trace_export(t, in_folder(folder, "all.json"), NULL));
    char *json = test_slurp(in_folder(folder, "all.json"), &(size_t){0});
    assert_int_equal(arrows_of(json), 4); /* two, each with two ends */
    free(json);
    mtp_trace_destroy(t);
}

/* A tensor of number 1 at the same address in each process. */
static void record_tensor(void *arg)
{
    const char *name = arg;
    int64_t dims[1] = {4};
    mtp_identity identity = {.tensor = 1, .storage = 0x7000};
    mtp_input in = {.kind = MTP_INPUT_TENSOR,
                    .dtype = MTP_FLOAT32,
                    .count = 1,
                    .dims = dims,
                    .value.identity = &identity};
    mtp_op op = MTP_OP_INIT(mtp_name(name));
    op.inputs = &in;
    op.input_count = 1;
    op.flags = MTP_OP_IDENTIFIED;
    mtp_op_begin(&op);
    mtp_op_end(&op);
}

static void tensors_of_two_processes_have_two_ids(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_there(in_folder(folder, "a.mtp"), record_tensor, "op a");
    record_there(in_folder(folder, "b.mtp"), record_tensor, "op b");
    mtp_trace *t = open_all(folder);
    assert_int_equal(t->tensor_count, 3);
    assert_true(t->tensors[1].number != t->tensors[2].number);
    assert_true(t->tensors[1].part != t->tensors[2].part);
    mtp_trace_destroy(t);
}

static void record_metadata(void *arg)
{
    mtp_profile *prof = mtp__profile_active();
    CHILD_CHECK(mtp_profile_add_metadata(prof, "whose", "set twice: the last one holds") == MTP_OK);
    CHILD_CHECK(mtp_profile_add_metadata(prof, "whose", arg) == MTP_OK);
    CHILD_CHECK(mtp_profile_add_metadata(prof, arg, "1") == MTP_OK);
}

static const char *metadata_of(const mtp_trace *t, const char *key)
{
    const char *json = NULL;
    for (uint32_t i = 0; i < t->metadata_count; i++)
        if (strcmp(mtp__trace_get_text(t, t->metadata[i].key).bytes, key) == 0) {
            assert_null(json); /* each key once */
            json = mtp__trace_get_text(t, t->metadata[i].json).bytes;
        }
    return json;
}

static void metadata_are_the_main_processs_and_keys_that_it_has_not(void **state)
{
    (void)state;
    const char *spool = a_run();
    char path[600];
    snprintf(path, sizeof path, "%s.workers/3.mtp", spool);
    record_here(spool, record_metadata, "main");
    record_there(path, record_metadata, "worker");
    mtp_trace *t = open_all(spool);
    assert_string_equal(metadata_of(t, "whose"), "\"main\"");
    assert_string_equal(metadata_of(t, "main"), "\"1\"");
    assert_string_equal(metadata_of(t, "worker"), "\"1\"");
    assert_non_null(metadata_of(t, "trace_id"));
    mtp_trace_destroy(t);
}

/* ------------------------------------------------------------------------------------------------ steps */

static void record_steps(void *arg)
{
    int count = *(const int *)arg;
    for (int i = 0; i < count; i++) {
        mtp__step_mark((uint64_t)i);
        MTP_SCOPE ("work") {
        }
    }
}

static void steps_are_those_of_the_main_process(void **state)
{
    (void)state;
    const char *spool = a_run();
    int main_steps = 3, other_steps = 5;
    char path[600];
    snprintf(path, sizeof path, "%s.workers/3.mtp", spool);
    record_here(spool, record_steps, &main_steps);
    record_there(path, record_steps, &other_steps);
    mtp_trace *t = open_all(spool);
    mtp_open_options alone = MTP_OPEN_OPTIONS_INIT;
    alone.alone = true;
    mtp_trace *one;
    assert_ok(mtp_trace_open(spool, &alone, &one));
    assert_int_equal(t->step_count, one->step_count);
    assert_true(t->step_count >= 3);
    mtp_trace_destroy(one);
    mtp_trace_destroy(t);
}

/* --------------------------------------------------------------------------------------------- trouble */

static void every_failed_allocation_is_reported_and_nothing_leaks(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    record_there(in_folder(folder, "a.mtp"), record_device_work, "scope a");
    record_there(in_folder(folder, "b.mtp"), record_scopes, "b");
    test_spew(in_folder(folder, "c.mtp"), "not a spool", 11);
    long live = mtp__alloc_live();
    for (int counted = 0; counted < 2; counted++)
        for (int nth = 1;; nth++) {
            mtp_trace *t = NULL;
            mtp_open_options o = MTP_OPEN_OPTIONS_INIT;
            o.count_only = counted == 1;
            mtp__fault_plan(1u << MTP__FAULT_ALLOC | 1u << MTP__FAULT_MAP, nth, nth % 2 == 0);
            mtp_status status = mtp_trace_open(folder, &o, &t);
            int failed = mtp__fault_stop();
            mtp_trace_destroy(t);
            assert_int_equal(mtp__alloc_live(), live);
            if (failed == 0) {
                assert_int_equal(status, MTP_OK);
                assert_true(nth > 20);
                break;
            }
            if (counted == 1 && status == MTP_OK)
                continue; /* device work cannot be counted: reading it a second time went well */
            assert_int_equal(status, MTP_E_NOMEM);
            assert_null(t);
        }
}

static void files_that_fail_to_open_are_named(void **state)
{
    (void)state;
    const char *folder = new_folder("");
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d.mtp", i);
        record_there(in_folder(folder, name), record_scopes, "own");
    }
    long live = mtp__alloc_live();
    for (int nth = 1;; nth++) {
        mtp_trace *t = NULL;
        mtp__fault_plan(1u << MTP__FAULT_OPEN, nth, false);
        mtp_status status = mtp_trace_open(folder, NULL, &t);
        int failed = mtp__fault_stop();
        size_t problems = 0;
        for (size_t i = 0; t != NULL && i < mtp_trace_recording_count(t); i++)
            problems += recording_of(t, i).problem[0] != 0;
        if (status == MTP_OK && problems == 1) {
            assert_int_equal(t->span_count, 4);
            assert_sound(t);
        }
        mtp_trace_destroy(t);
        assert_int_equal(mtp__alloc_live(), live);
        if (failed == 0) {
            assert_int_equal(status, MTP_OK);
            assert_true(nth > 6);
            break;
        }
    }
}

static void structs_of_older_and_wrong_callers_are_handled(void **state)
{
    (void)state;
    mtp_trace *t = open_all(a_run());
    mtp_recording_info r = MTP_RECORDING_INFO_INIT;
    assert_int_equal(mtp_trace_recording(t, 3, &r), MTP_E_ARG);
    assert_int_equal(mtp_trace_recording(NULL, 0, &r), MTP_E_ARG);
    assert_int_equal(mtp_trace_recording(t, 0, NULL), MTP_E_ARG);
    r.size = 8;
    assert_int_equal(mtp_trace_recording(t, 0, &r), MTP_E_ABI);
    assert_int_equal(mtp_trace_recording_count(NULL), 0);
    assert_int_equal(mtp_trace_files(NULL, count_file, NULL), MTP_E_ARG);
    mtp_trace_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_spool_is_read_with_its_workers_a_process_per_row),
        TEST(a_folder_is_read_like_a_spool_and_its_main_process_comes_first),
        TEST(the_main_process_of_a_folder_is_no_others_child_even_if_it_starts_last),
        TEST(one_process_can_be_chosen),
        TEST(two_recordings_of_one_pid_are_two_rows),
        TEST(only_recordings_are_listed_and_each_once),
        TEST(files_that_cannot_be_read_do_not_spoil_the_rest),
        TEST(a_copy_of_a_recording_is_not_read_twice),
        TEST(a_recording_without_events_adds_none),
        TEST(ledgers_add_up_and_the_worst_outcome_is_told),
        TEST(averages_are_over_all_processes),
        TEST(device_work_stays_with_the_process_that_launched_it),
        TEST(an_address_in_two_processes_is_two_blocks),
        TEST(a_backward_op_belongs_to_the_forward_op_of_its_own_recording),
        TEST(tensors_of_two_processes_have_two_ids),
        TEST(metadata_are_the_main_processs_and_keys_that_it_has_not),
        TEST(steps_are_those_of_the_main_process),
        TEST(every_failed_allocation_is_reported_and_nothing_leaks),
        TEST(files_that_fail_to_open_are_named),
        TEST(structs_of_older_and_wrong_callers_are_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
