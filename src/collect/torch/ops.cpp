/* collect/torch/ops.cpp - records PyTorch's ops, backward nodes and record_function scopes, by PyTorch's own
 * callbacks (at::addGlobalCallback), which run on every thread.
 *
 * PyTorch would keep an object for us between the start and the end of a call; allocating and destroying it is
 * a third of what we cost, so the open calls of a thread are kept here, on a stack. A call that ends on another
 * thread than it began on (an asynchronous one) stays open in the trace.
 */
#include <ATen/record_function.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <torch/version.h>
#include <unistd.h>
#include <atomic>
#include <mutex>
#include "collect/torch/comms.h"
#include "collect/torch/inputs.h"

#define OPEN_MOST 1024     /* open calls of a thread that are remembered */
#define NAMES 256          /* of a thread's cache; a power of two */
#define NAME_ROOM 116      /* bytes of a name in it */
#define THREADS_MOST 16384 /* whose numbers are known */

namespace
{

struct known_name {
    const char *at; /* where PyTorch had it */
    uint32_t id;
    char text[NAME_ROOM];
};

struct open_call {
    const at::RecordFunction *call;
    mtp_token token;
};

/* Of one thread; freed when it ends. */
struct thread_state {
    uint32_t open;
    open_call call[OPEN_MOST];
    known_name name[NAMES];
    mtp__torch_inputs inputs;
};

__attribute__((tls_model("initial-exec"))) thread_local thread_state *mine;
pthread_key_t mine_key;
/* By PyTorch's number of a thread, which counts from 1: the system's. */
std::atomic<uint32_t> thread_ids[THREADS_MOST];

std::mutex attach_lock;
at::CallbackHandle attached = at::INVALID_CALLBACK_HANDLE;

void free_state(void *state)
{
    mine = nullptr;
    free(state);
}

/* The number of the thread is asked for, not taken from the call: that may have been made on another thread (Gloo's are). */
__attribute__((noinline, cold)) thread_state *make_state()
{
    uint64_t number = at::RecordFunction::currentThreadId();
    thread_state *state = static_cast<thread_state *>(calloc(1, sizeof *state));
    if (state != nullptr && pthread_setspecific(mine_key, state) != 0) {
        free(state);
        state = nullptr;
    }
    mine = state;
    if (state != nullptr)
        state->inputs.tensors = (number & 0x3ff)
                                << 37; /* numbers are below 2^48; ours of Python have bit 47 */
    if (number < THREADS_MOST)
        thread_ids[number].store((uint32_t)syscall(SYS_gettid), std::memory_order_relaxed);
    return state;
}

/* The text is compared too: names that are no op's stand in memory that is used again. */
inline uint32_t name_of(thread_state *state, const char *text)
{
    uintptr_t at = (uintptr_t)text;
    known_name *known = &state->name[(at >> 4 ^ at >> 13) & (NAMES - 1)];
    if (known->at == text && strcmp(known->text, text) == 0)
        return known->id;
    uint32_t id = mtp_name(text);
    size_t length = strlen(text);
    if (length < NAME_ROOM) {
        known->at = text;
        known->id = id;
        memcpy(known->text, text, length + 1);
    }
    return id;
}

uint32_t kind_of(at::RecordScope scope)
{
    return scope == at::RecordScope::USER_SCOPE          ? MTP_SCOPE_USER
           : scope == at::RecordScope::BACKWARD_FUNCTION ? MTP_SCOPE_BACKWARD
                                                         : MTP_SCOPE_OP;
}

std::atomic<bool> steps_are_hidden; /* set once; which step is the last one shown does not matter */

inline bool is_hidden_step(const char *name)
{
    static const char prefix[] = "ProfilerStep#";
    return steps_are_hidden.load(std::memory_order_relaxed) && strncmp(name, prefix, sizeof prefix - 1) == 0;
}

/* Members of the event's JSON object, as torch.profiler shows the keywords of _RecordFunctionFast. */
std::string keywords_of(const at::RecordFunction &call)
{
    std::string text;
    for (const auto &[key, value] : call.kwinputs()) {
        std::string shown;
        if (value.isBool())
            shown = value.toBool() ? "true" : "false";
        else if (value.isInt())
            shown = std::to_string(value.toInt());
        else if (value.isString())
            shown = value.toStringRef();
        else
            continue;
        text += text.empty() ? MTP_ARGS_MEMBERS : ", ";
        text += mtp__torch_quoted(key) + ": " + (value.isString() ? mtp__torch_quoted(shown) : shown);
    }
    return text;
}

/* Only programs' and libraries' own calls have keywords, and copying even none of them takes a while. */
__attribute__((noinline)) void begin_with_keywords(const at::RecordFunction &call, mtp_op *op)
{
    std::string keywords = op->args == nullptr ? keywords_of(call) : op->args;
    op->args = keywords.empty() ? nullptr : keywords.c_str();
    mtp_op_begin(op);
}

std::atomic<bool> comms_are_wanted; /* relaxed: torch.distributed is used */

inline bool is_communication(const char *name)
{
    return (name[0] == 'c' && strncmp(name, "c10d::", 6) == 0) || (name[0] == 'g' && strncmp(name, "gloo:", 5) == 0) ||
           (name[0] == 'r' && strcmp(name, "record_param_comms") == 0);
}

/* What a collective says of itself, in front of the text that is there. */
__attribute__((noinline)) std::string communication(const at::RecordFunction &call, const char *name)
{
    if (name[0] == 'c') {
        mtp__torch_comms_called(call);
        return "";
    }
    std::string text = name[0] == 'g' ? mtp__torch_comms_gloo(call) : mtp__torch_comms_param(call);
    return text.empty() ? text : MTP_ARGS_MEMBERS + text;
}

inline bool is_aten(const char *name)
{
    return name[0] == 'a' && name[1] == 't' && name[2] == 'e' && name[3] == 'n' && name[4] == ':';
}

__attribute__((noinline)) void begin_with_inputs(thread_state *state, const at::RecordFunction &call,
                                                 const char *name, mtp_op *op, uint32_t recording)
{
    mtp__torch_inputs *in = &state->inputs;
    /* Which tensor an input is matters to the memory profile only, and takes a record of its own. */
    bool with_identities = (recording & MTP_WITH_MEMORY) != 0;
    mtp_pack *pack = mtp__torch_inputs_read(in, op->name, call.inputs(), with_identities);
    op->inputs = MTP_PACKED(pack);
    op->device = in->device;
    op->flags = MTP_OP_PACKED | (with_identities ? MTP_OP_IDENTIFIED : 0);
    op->identities = in->identity;
    op->identity_count = in->identities;
    if (op->kind == MTP_SCOPE_USER)
        mtp_op_begin_text(op, name, strlen(name));
    else if (op->kind == MTP_SCOPE_OP && !is_aten(name))
        begin_with_keywords(call, op);
    else
        mtp_op_begin(op);
}

/* Most of them ended on other threads, and will never be asked for. */
__attribute__((noinline, cold)) void forget_oldest(thread_state *state)
{
    state->open = OPEN_MOST / 2;
    memmove(state->call, state->call + OPEN_MOST / 2, state->open * sizeof *state->call);
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &call)
{
    uint32_t recording = mtp_recording();
    if (!(recording & MTP_CPU))
        return nullptr;
    thread_state *state = mine;
    if (__builtin_expect(state == nullptr, 0) && (state = make_state()) == nullptr)
        return nullptr;
    const char *name = call.name();
    mtp_op op = MTP_OP_INIT(0);
    op.kind = kind_of(call.scope());
    if (op.kind == MTP_SCOPE_USER && is_hidden_step(name))
        return nullptr;
    op.sequence = call.seqNr();
    if (op.kind !=
        MTP_SCOPE_USER) /* names made by the program, perhaps of numbers, are kept for the session only */
        op.name = name_of(state, name);
    uint64_t forward = call.forwardThreadId();
    if (forward != 0 && forward < THREADS_MOST)
        op.forward_thread = thread_ids[forward].load(std::memory_order_relaxed);
    std::string told;
    if (comms_are_wanted.load(std::memory_order_relaxed) && is_communication(name)) {
        told = communication(call, name);
        op.args = told.empty() ? nullptr : told.c_str();
    }
    if (recording & MTP_WITH_SHAPES)
        begin_with_inputs(state, call, name, &op, recording);
    else if (op.kind == MTP_SCOPE_USER)
        mtp_op_begin_text(&op, name, strlen(name));
    else
        mtp_op_begin(&op);
    if (__builtin_expect(state->open == OPEN_MOST, 0))
        forget_oldest(state);
    state->call[state->open++] = {&call, op.token};
    return nullptr;
}

/* The call that ends is the innermost, unless an inner one ended on another thread. */
__attribute__((noinline, cold)) void end_outer(thread_state *state, const at::RecordFunction &call)
{
    for (uint32_t i = state->open; i > 0; i--)
        if (state->call[i - 1].call == &call) {
            mtp_scope_end(state->call[i - 1].token);
            memmove(&state->call[i - 1], &state->call[i], (state->open - i) * sizeof *state->call);
            state->open--;
            return;
        }
}

void end(const at::RecordFunction &call, at::ObserverContext *)
{
    thread_state *state = mine;
    if (state == nullptr || state->open == 0)
        return;
    const open_call *last = &state->call[state->open - 1];
    if (__builtin_expect(last->call != &call, 0)) {
        end_outer(state, call);
        return;
    }
    state->open--;
    mtp_scope_end(last->token);
}

uint64_t clock_sum; /* so that the reads are not optimised away */

std::unique_ptr<at::ObserverContext> clock_begin(const at::RecordFunction &)
{
    clock_sum += mtp_ticks();
    return nullptr;
}

void clock_end(const at::RecordFunction &, at::ObserverContext *)
{
    clock_sum -= mtp_ticks();
}

/* How many asked for it; under attach_lock. */
struct {
    unsigned ops, inputs, memory, comms;
} users;

void set(const at::RecordFunctionCallback *callback) /* NULL: none */
{
    at::CallbackHandle before = attached;
    attached = callback != nullptr ? at::addGlobalCallback(*callback) : at::INVALID_CALLBACK_HANDLE;
    if (before != at::INVALID_CALLBACK_HANDLE)
        at::removeCallback(before);
}

unsigned apply()
{
    at::RecordFunctionCallback callback(begin, end);
    comms_are_wanted.store(users.comms > 0, std::memory_order_relaxed);
    callback.needsInputs(users.inputs + users.comms > 0);
    set(users.ops > 0 ? &callback : nullptr);
    bool with_memory = users.memory > 0 && mtp__torch_memory_attach();
    if (!with_memory)
        mtp__torch_memory_detach();
    return (users.inputs > 0 ? MTP_TORCH_INPUTS : 0) | (with_memory ? MTP_TORCH_MEMORY : 0);
}

__attribute__((constructor)) void init()
{
    pthread_key_create(&mine_key, free_state);
}

} // namespace

unsigned mtp_torch_attach(unsigned flags)
{
    std::lock_guard<std::mutex> guard(attach_lock);
    users.ops++;
    users.inputs += (flags & MTP_TORCH_INPUTS) != 0;
    users.memory += (flags & MTP_TORCH_MEMORY) != 0;
    users.comms += (flags & MTP_TORCH_COMMS) != 0;
    return apply();
}

void mtp_torch_detach(unsigned flags)
{
    std::lock_guard<std::mutex> guard(attach_lock);
    if (users.ops == 0)
        return;
    users.ops--;
    users.inputs -= (flags & MTP_TORCH_INPUTS) != 0;
    users.memory -= (flags & MTP_TORCH_MEMORY) != 0;
    users.comms -= (flags & MTP_TORCH_COMMS) != 0;
    apply();
}

void mtp_torch_hide_steps(void)
{
    steps_are_hidden.store(true, std::memory_order_relaxed);
}

void mtp_torch_clock(int on, int with_inputs)
{
    std::lock_guard<std::mutex> guard(attach_lock);
    at::RecordFunctionCallback callback(clock_begin, clock_end);
    callback.needsInputs(with_inputs != 0);
    set(on ? &callback : nullptr);
}

const char *mtp_torch_version(void)
{
    return TORCH_VERSION;
}
