/* runtime/device/streams.c - streams and events of accelerators. */
#define _GNU_SOURCE
#include "runtime/device/device.h"
#include <stdlib.h>

/* By device; NULL: the default stream. One that has been destroyed has no handle. */
static MT__FAST_TLS mt_stream *chosen[MT__NPUS_MAX];

mt_stream *mt__stream_now(mt__npu *npu)
{
    mt_stream *s = chosen[MT_DEVICE_INDEX(npu->device)];
    return s != NULL && s->handle != NULL ? s : &npu->own;
}

/* Handles of streams and events may be inherited through a fork by a process that has no device. */
static mt_status check_here(const mt__npu *npu)
{
    mt__npu *known;
    return mt__npu_opened(MT_DEVICE_INDEX(npu->device)) == npu ? MT_OK : mt__npu_of(npu->device, &known);
}

mt_status mt_stream_create(mt_device device, mt_stream **out)
{
    mt__npu *npu;
    *out = NULL;
    mt_status status = mt__npu_of(device, &npu);
    if (status != MT_OK)
        return status;
    mtp_plugin_stream *handle = NULL;
    mtp_status made = npu->api->stream_create(npu->handle, &handle);
    if (made != MTP_OK)
        return mt__npu_fail(npu, made, "a stream");
    pthread_mutex_lock(&npu->lock);
    mt_stream *s = npu->spent != NULL ? npu->spent : calloc(1, sizeof *s);
    if (s != NULL) {
        npu->spent = s->next;
        *s = (mt_stream){.npu = npu, .handle = handle, .id = npu->next_stream++, .next = npu->own.next};
        npu->own.next = s;
    } else {
        npu->api->stream_destroy(handle);
    }
    pthread_mutex_unlock(&npu->lock);
    *out = s;
    return s != NULL ? MT_OK : mt__fail(MT_E_NOMEM, "out of memory: a stream");
}

/* Once all of its work is done, its memory moves to the default stream. */
void mt_stream_destroy(mt_stream *s)
{
    if (s == NULL || s == &s->npu->own)
        return;
    mt__npu *npu = s->npu;
    if (mt__npu_opened(MT_DEVICE_INDEX(npu->device)) != npu)
        return; /* in a forked child: it belongs to the parent */
    npu->api->stream_synchronize(s->handle);
    if (chosen[MT_DEVICE_INDEX(npu->device)] == s)
        chosen[MT_DEVICE_INDEX(npu->device)] = NULL;
    pthread_mutex_lock(&npu->lock);
    mt__npu_harvest(npu, true);
    for (mt_stream **at = &npu->own.next; *at != NULL; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    mt__device_memory_leaves(npu, s);
    if (s->probe != NULL)
        npu->api->event_release(s->probe);
    npu->api->stream_destroy(s->handle);
    s->handle = NULL;
    s->next = npu->spent;
    npu->spent = s;
    mt__npu_unlock(npu);
}

mt_stream *mt_stream_default(mt_device device)
{
    mt__npu *npu;
    return mt__npu_of(device, &npu) == MT_OK ? &npu->own : NULL;
}

mt_stream *mt_stream_current(mt_device device)
{
    mt__npu *npu;
    return mt__npu_of(device, &npu) == MT_OK ? mt__stream_now(npu) : NULL;
}

void mt_stream_use(mt_stream *stream)
{
    chosen[MT_DEVICE_INDEX(stream->npu->device)] = stream;
}

uint64_t mt_stream_id(const mt_stream *stream)
{
    return stream->id;
}

mt_device mt_stream_device(const mt_stream *stream)
{
    return stream->npu->device;
}

mt_status mt_stream_synchronize(mt_stream *stream)
{
    mt_status status = check_here(stream->npu);
    return status == MT_OK ? mt__npu_synchronize(stream->npu, stream) : status;
}

/* A query enqueues an event after all work, and the next query checks it: nothing waits, and finished work is
 * recognised by the second query at the latest. */
mt_status mt_stream_done(mt_stream *stream, bool *out)
{
    mt__npu *npu = stream->npu;
    const mtp_plugin *api = npu->api;
    mt_status here = check_here(npu);
    if (here != MT_OK)
        return here;
    mtp_status status = MTP_OK;
    bool done = false;
    pthread_mutex_lock(&npu->lock);
    if (stream->done < stream->work && (stream->probe == NULL || stream->probed < stream->work)) {
        if (stream->probe != NULL)
            api->event_release(stream->probe);
        stream->probed = stream->work;
        status = api->event_record(stream->handle, &stream->probe);
        if (status == MTP_OK)
            status = api->stream_flush(stream->handle);
    }
    if (status == MTP_OK && stream->done < stream->work)
        status = api->event_done(stream->probe, &done);
    if (done)
        stream->done = stream->probed;
    *out = stream->done == stream->work;
    pthread_mutex_unlock(&npu->lock);
    return status == MTP_OK ? MT_OK : mt__npu_fail(npu, status, "a stream");
}

mt_status mt_synchronize(mt_device device)
{
    mt__npu *npu;
    mt_status status = MT_DEVICE_TYPE(device) != 0 ? mt__npu_of(device, &npu) : MT_OK;
    return status == MT_OK && MT_DEVICE_TYPE(device) != 0 ? mt__npu_synchronize(npu, NULL) : status;
}

/* --------------------------------------------------------------------------------------------------- events */

struct mt_event {
    mt__npu *npu;
    mtp_plugin_event *handle; /* owned */
};

mt_status mt_event_record(mt_stream *stream, mt_event **out)
{
    *out = NULL;
    mt_status here = check_here(stream->npu);
    if (here != MT_OK)
        return here;
    mt_event *e = calloc(1, sizeof *e);
    if (e == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: an event");
    e->npu = stream->npu;
    pthread_mutex_lock(&e->npu->lock);
    mtp_status status = e->npu->api->event_record(stream->handle, &e->handle);
    if (status == MTP_OK)
        status = e->npu->api->stream_flush(stream->handle);
    pthread_mutex_unlock(&e->npu->lock);
    if (status != MTP_OK) {
        mt_status failed = mt__npu_fail(e->npu, status, "an event");
        free(e);
        return failed;
    }
    *out = e;
    return MT_OK;
}

void mt_event_destroy(mt_event *e)
{
    if (e == NULL)
        return;
    if (check_here(e->npu) == MT_OK)
        e->npu->api->event_release(e->handle);
    free(e);
}

static mt_status of_event(const mt_event *e, mtp_status status)
{
    return status == MTP_OK ? MT_OK : mt__npu_fail(e->npu, status, "an event");
}

mt_status mt_event_done(mt_event *e, bool *out)
{
    mt_status here = check_here(e->npu);
    return here == MT_OK ? of_event(e, e->npu->api->event_done(e->handle, out)) : here;
}

mt_status mt_event_synchronize(mt_event *e)
{
    mt_status here = check_here(e->npu);
    return here == MT_OK ? of_event(e, e->npu->api->event_wait(e->handle)) : here;
}

mt_status mt_event_elapsed(mt_event *from, mt_event *to, double *milliseconds)
{
    mtp_plugin_times a, b;
    const mtp_plugin *api = from->npu->api;
    mt_status here = check_here(from->npu);
    if (here != MT_OK)
        return here;
    mtp_status status = api->event_wait(to->handle);
    if (status == MTP_OK)
        status = api->event_wait(from->handle);
    if (status == MTP_OK)
        status = api->event_times(from->handle, &a);
    if (status == MTP_OK)
        status = api->event_times(to->handle, &b);
    if (status == MTP_OK)
        *milliseconds = ((double)b.end - (double)a.end) / 1e6;
    return of_event(from, status);
}

mt_status mt_stream_wait(mt_stream *stream, mt_event *event)
{
    mt__npu *npu = stream->npu;
    mt_status here = check_here(npu);
    if (here != MT_OK)
        return here;
    pthread_mutex_lock(&npu->lock);
    mtp_status status = npu->api->stream_wait(stream->handle, event->handle);
    pthread_mutex_unlock(&npu->lock);
    return of_event(event, status);
}
