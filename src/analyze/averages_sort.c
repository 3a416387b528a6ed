/* analyze/averages_sort.c - sorts rows by one of their numbers. */
#include <stdlib.h>
#include <string.h>
#include "analyze/averages.h"
#include "base/error.h"
#include "base/os.h"

/* X(torch's name, expression over row) */
#define ATTRIBUTE_LIST(X)                                                                                    \
    X(count, (double)row->count)                                                                             \
    X(cpu_time, row->count != 0 ? row->cpu_time_total / (double)row->count : 0)                              \
    X(cpu_time_avg, row->count != 0 ? row->cpu_time_total / (double)row->count : 0)                          \
    X(cpu_time_total, row->cpu_time_total)                                                                   \
    X(self_cpu_time_total, row->self_cpu_time_total)                                                         \
    X(device_time, row->count != 0 ? row->device_time_total / (double)row->count : 0)                        \
    X(device_time_avg, row->count != 0 ? row->device_time_total / (double)row->count : 0)                    \
    X(device_time_total, row->device_time_total)                                                             \
    X(self_device_time_total, row->self_device_time_total)                                                   \
    X(cpu_memory_usage, (double)row->cpu_memory_usage)                                                       \
    X(self_cpu_memory_usage, (double)row->self_cpu_memory_usage)                                             \
    X(device_memory_usage, (double)row->device_memory_usage)                                                 \
    X(self_device_memory_usage, (double)row->self_device_memory_usage)                                       \
    X(flops, (double)row->flops)                                                                             \
    X(is_user_annotation, (double)row->is_user_annotation)                                                   \
    X(is_async, (double)row->is_async)                                                                       \
    X(min, row->min)                                                                                         \
    X(p50, row->p50)                                                                                         \
    X(p99, row->p99)                                                                                         \
    X(max, row->max)

#define X(name, expression)                                                                                  \
    static double number_##name(const mtp_row *row)                                                          \
    {                                                                                                        \
        return (expression);                                                                                 \
    }
ATTRIBUTE_LIST(X)
#undef X

/* torch reads cuda, xpu and privateuse1 anywhere in the name as device. */
static void read_device(char *to, size_t room, const char *name)
{
    static const char *const same[] = {"cuda", "xpu", "npu", "privateuse1"};
    size_t n = 0;
    while (*name != '\0' && n + 8 < room) {
        size_t i = 0, length = 0;
        for (; i < sizeof same / sizeof *same; i++)
            if (strncmp(name, same[i], length = strlen(same[i])) == 0)
                break;
        if (i < sizeof same / sizeof *same) {
            memcpy(to + n, "device", 6);
            n += 6;
            name += length;
        } else {
            to[n++] = *name++;
        }
    }
    to[n] = '\0';
}

mtp_status mtp__row_attribute(const char *name, mtp__row_number **out)
{
    static const struct {
        const char *name;
        mtp__row_number *number;
    } known[] = {
#define X(name, expression) {#name, number_##name},
        ATTRIBUTE_LIST(X)
#undef X
    };
    char read[64];
    read_device(read, sizeof read, name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(read, known[i].name) == 0) {
            *out = known[i].number;
            return MTP_OK;
        }
#define X(name, expression) " " #name
    return MTP_FAIL(MTP_E_ARG, "rows have no attribute '%s'; valid ones are:" ATTRIBUTE_LIST(X), name);
#undef X
}

typedef struct keyed {
    double number;
    size_t index;
} keyed;

static int largest_first(const void *x, const void *y)
{
    const keyed *a = x, *b = y;
    if (a->number != b->number)
        return a->number > b->number ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

mtp_status mtp__averages_order(const mtp_averages *a, const char *attribute, size_t *order)
{
    mtp__row_number *number;
    mtp_status status = mtp__row_attribute(attribute, &number);
    if (status != MTP_OK)
        return status;
    keyed *list = mtp__calloc(a->count + 1, sizeof *list);
    if (list == NULL)
        return MTP_FAIL(MTP_E_NOMEM, "the order of %zu rows", a->count);
    for (size_t i = 0; i < a->count; i++)
        list[i] = (keyed){number(&a->row[i].shown), i};
    qsort(list, a->count, sizeof *list, largest_first);
    for (size_t i = 0; i < a->count; i++)
        order[i] = list[i].index;
    mtp__free(list);
    return MTP_OK;
}

mtp_status mtp_averages_sort(mtp_averages *a, const char *attribute)
{
    if (a == NULL || attribute == NULL)
        return MTP_FAIL(MTP_E_ARG, "%s is NULL", a == NULL ? "averages" : "attribute");
    size_t *order = mtp__calloc(a->count + 1, sizeof *order);
    mtp__averages_row *row = mtp__calloc(a->count + 1, sizeof *row);
    mtp_status status = MTP_E_NOMEM;
    if (order == NULL || row == NULL)
        MTP_FAIL(status, "the order of %zu rows", a->count);
    else if ((status = mtp__averages_order(a, attribute, order)) == MTP_OK) {
        for (size_t i = 0; i < a->count; i++)
            row[i] = a->row[order[i]];
        mtp__averages_row *old = a->row;
        a->row = row;
        row = old;
    }
    mtp__free(order);
    mtp__free(row);
    return status;
}
