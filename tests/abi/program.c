/* A program as users of version 0.1 wrote it: test_consumers.py compiles it with the headers of then (0.1/, never to be
 * edited), and runs it with the library of today. It uses every struct that crosses the border. */
#include <mtprof.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call)                                                                                           \
    do {                                                                                                     \
        if (!(call)) {                                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, mtp_last_error());                 \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

static uint32_t capture(void *user, uint64_t *frames, uint32_t room)
{
    (void)user;
    frames[0] = 7;
    return room > 0;
}

static void describe(void *user, uint64_t frame, char *out, size_t room)
{
    (void)user;
    snprintf(out, room, "file.c:%d:function", (int)frame);
}

static void record(void)
{
    int64_t dims[] = {2, 3};
    mtp_identity identity = {.tensor = 1, .storage = 4096};
    mtp_input input = {.kind = MTP_INPUT_TENSOR,
                       .dtype = MTP_FLOAT32,
                       .count = 2,
                       .dims = dims,
                       .value.identity = &identity};
    mtp_op op = MTP_OP_INIT(MTP_NAME("aten::mm"));
    op.inputs = &input, op.input_count = 1, op.sequence = 5, op.flags = MTP_OP_IDENTIFIED;
    mtp_op_begin(&op);
    mtp_memory_event(MTP_DEVICE_CPU, dims, 64, 64, 64);
    mtp_op_end(&op);
    uint64_t words[32];
    mtp_pack pack;
    mtp_pack_init(&pack, words, 32);
    mtp_pack_begin(&pack);
    mtp_pack_tensor(&pack, MTP_FLOAT32, 2, dims, NULL);
    mtp_op packed = MTP_OP_INIT(MTP_NAME("aten::sum"));
    packed.inputs = MTP_PACKED(&pack), packed.flags = MTP_OP_PACKED;
    mtp_op_begin(&packed);
    mtp_op_end(&packed);
    mtp_device_info info = MTP_DEVICE_INFO_INIT;
    info.name = "a device";
    mtp_device_describe(MTP_DEVICE_NPU(0), &info);
    mtp_device_work work = MTP_DEVICE_WORK_INIT(MTP_NAME("kernel"), MTP_DEVICE_NPU(0));
    work.start = mtp_ticks(), work.end = work.start + 1000;
    mtp_device_event(&work);
}

static mtp_trace *profile(void)
{
    mtp_stack_provider provider = {sizeof provider, capture, describe, NULL};
    MUST(mtp_stack_provider_set(&provider) == MTP_OK);
    mtp_profile_config config = MTP_PROFILE_CONFIG_INIT;
    config.record_shapes = config.with_stack = config.profile_memory = true;
    config.activities = MTP_CPU | MTP_NPU;
    mtp_profile *prof;
    MUST(mtp_profile_create(&config, &prof) == MTP_OK && mtp_profile_start(prof) == MTP_OK);
    record();
    MUST(mtp_profile_stop(prof) == MTP_OK);
    mtp_ledger ledger = MTP_LEDGER_INIT;
    MUST(mtp_profile_ledger(prof, &ledger) == MTP_OK && ledger.kept >= 6 && ledger.dropped == 0);
    mtp_trace *trace;
    MUST(mtp_profile_trace(prof, &trace) == MTP_OK);
    mtp_profile_destroy(prof);
    return trace;
}

static void use_rows(const mtp_trace *trace)
{
    mtp_averages_options options = MTP_AVERAGES_OPTIONS_INIT;
    mtp_table_options table = MTP_TABLE_OPTIONS_INIT;
    mtp_averages *rows;
    options.by_input_shape = true;
    table.sort_by = "cpu_time_total";
    MUST(mtp_averages_create(trace, &options, &rows) == MTP_OK);
    MUST(strcmp(mtp_averages_row(rows, 0)->key, "aten::mm") == 0 && mtp_averages_total(rows)->count >= 2);
    MUST(mtp_averages_table(rows, &table, mtp_sink_file, stdout) == MTP_OK);
    mtp_averages_destroy(rows);
}

static void use_events(const mtp_trace *trace)
{
    mtp_event event = {.size = sizeof event};
    mtp_events *events;
    size_t count;
    MUST(mtp_events_create(trace, &events) == MTP_OK && mtp_events_count(events, &count) == MTP_OK &&
         count >= 2);
    MUST(mtp_events_get(events, 0, &event) == MTP_OK && strcmp(event.name.bytes, "aten::mm") == 0 &&
         event.sequence == 5);
    mtp_events_destroy(events);
    mtp_tree_node node = {.size = sizeof node};
    mtp_tree_tensor tensor = {.size = sizeof tensor};
    mtp_tree *tree;
    MUST(mtp_tree_create(trace, &tree) == MTP_OK && mtp_tree_count(tree) >= 2);
    MUST(mtp_tree_get(tree, 0, &node) == MTP_OK && node.inputs.count == 1);
    MUST(mtp_tree_tensor_get(tree, node.inputs.first, &tensor) == MTP_OK && tensor.storage == 4096);
    mtp_tree_destroy(tree);
}

static void use_analyses(const mtp_trace *trace)
{
    mtp_trace_info info = MTP_TRACE_INFO_INIT;
    MUST(mtp_trace_get_info(trace, &info) == MTP_OK && info.spans >= 3);
    mtp_columns *columns = calloc(1, sizeof *columns);
    columns->size = sizeof *columns;
    MUST(mtp_trace_columns(trace, columns) == MTP_OK && columns->count > 10);
    free(columns);
    mtp_diff_options options = MTP_DIFF_OPTIONS_INIT;
    mtp_diff_summary summary = MTP_DIFF_SUMMARY_INIT;
    mtp_diff *diff;
    MUST(mtp_diff_create(trace, trace, &options, &diff) == MTP_OK &&
         mtp_diff_get_summary(diff, &summary) == MTP_OK);
    MUST(summary.rows > 0 && summary.slower == 0);
    mtp_diff_destroy(diff);
    mtp_memory_info memory = MTP_MEMORY_INFO_INIT;
    mtp_memory_timeline *timeline;
    MUST(mtp_memory_timeline_create(trace, NULL, &timeline) == MTP_OK);
    MUST(mtp_memory_timeline_info(timeline, &memory) == MTP_OK && memory.allocations == 1);
    mtp_memory_timeline_destroy(timeline);
    mtp_steps *steps;
    MUST(mtp_steps_create(trace, &steps) == MTP_OK && mtp_steps_row(steps, 0)->ops == 2);
    MUST(mtp_steps_summary(steps, MTP_STEP_MAX)->wall_ns > 0);
    mtp_steps_destroy(steps);
}

static void use_files(const mtp_trace *trace)
{
    mtp_export_options out = MTP_EXPORT_OPTIONS_INIT;
    mtp_open_options in = MTP_OPEN_OPTIONS_INIT;
    mtp_cut_options cut = MTP_CUT_OPTIONS_INIT;
    mtp_trace *again, *part;
    MUST(mtp_trace_export(trace, "program.json", &out) == MTP_OK);
    MUST(mtp_trace_open("program.json", &in, &again) == MTP_OK);
    MUST(mtp_trace_cut(again, &cut, &part) == MTP_OK);
    mtp_trace_destroy(part);
    mtp_trace_destroy(again);
    mtp_listener found[4];
    size_t count;
    MUST(mtp_listeners(found, sizeof *found, 4, &count) == MTP_OK);
    mtp_trigger trigger = MTP_TRIGGER_INIT;
    trigger.spool = "/nowhere/run.mtp";
    MUST(mtp_trigger_process(UINT32_MAX, &trigger) == MTP_E_ARG);
}

int main(void)
{
    mtp_trace *trace = profile();
    use_rows(trace);
    use_events(trace);
    use_analyses(trace);
    use_files(trace);
    mtp_trace_destroy(trace);
    puts("all is well");
    return 0;
}
