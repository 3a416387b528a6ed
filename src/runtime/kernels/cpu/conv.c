/* runtime/kernels/cpu/conv.c - convolutions. Those of float32 read the image shifted (conv_shifts.h). Others are
 * matrix products: the patches of an image are laid out as columns (im2col), and one product per image and group
 * computes the output.
 *
 * Images run in parallel if there are enough of them for all threads, else each product is split. A 1 x 1
 * kernel with stride 1 needs no columns: the image already has that form.
 */
#include "runtime/blas.h"
#include "runtime/kernels/cpu/clones.h"
#include "runtime/kernels/cpu/conv_depth.h"
#include "runtime/kernels/cpu/conv_shifts.h"
#include "runtime/ops/conv.h"
#include <pthread.h>
#include <stdlib.h>

typedef struct job {
    mt__conv c;
    mt_dtype dtype;
    size_t size;
    const char *input, *weight, *bias, *grad; /* contiguous */
    char *output, *grad_input, *grad_bias;
    char *grad_weight; /* one of `sums` elements for each of `parts` */
    int64_t sums;
    int64_t parts;
    bool direct;  /* without columns */
    bool deep;    /* by conv_depth.h */
    bool shifted; /* by conv_shifts.h */
    mt__shifts shifts;
    float *packed;       /* its weights */
    int64_t patch, area; /* rows and columns of the column matrix of one group */
    _Atomic bool failed;
} job;

/* ----------------------------------------------------------------------------------------- im2col, col2im */

#define COLUMNS(type, suffix)                                                                                \
    static void im2col_##suffix(const mt__conv *c, const type *image, type *restrict to)                     \
    {                                                                                                        \
        const int64_t channels = c->in_channels / c->groups, area = c->in[0] * c->in[1];                     \
        for (int64_t ch = 0; ch < channels; ch++)                                                            \
            for (int64_t ky = 0; ky < c->kernel[0]; ky++)                                                    \
                for (int64_t kx = 0; kx < c->kernel[1]; kx++) {                                              \
                    int64_t dx = kx * c->dilation[1] - c->padding[1], begin, end;                            \
                    mt__inside(c->out[1], c->stride[1], dx, c->in[1], &begin, &end);                         \
                    for (int64_t y = 0; y < c->out[0]; y++, to += c->out[1]) {                               \
                        int64_t iy = y * c->stride[0] + ky * c->dilation[0] - c->padding[0];                 \
                        if (iy < 0 || iy >= c->in[0]) {                                                      \
                            memset(to, 0, (size_t)c->out[1] * sizeof(type));                                 \
                            continue;                                                                        \
                        }                                                                                    \
                        const type *row = image + ch * area + iy * c->in[1];                                 \
                        for (int64_t x = 0; x < begin; x++)                                                  \
                            to[x] = 0;                                                                       \
                        if (c->stride[1] == 1)                                                               \
                            memcpy(to + begin, row + begin + dx, (size_t)(end - begin) * sizeof(type));      \
                        else                                                                                 \
                            for (int64_t x = begin; x < end; x++)                                            \
                                to[x] = row[x * c->stride[1] + dx];                                          \
                        for (int64_t x = end; x < c->out[1]; x++)                                            \
                            to[x] = 0;                                                                       \
                    }                                                                                        \
                }                                                                                            \
    }
COLUMNS(uint32_t, 4)
COLUMNS(uint64_t, 8)

#define IMAGES(type, suffix)                                                                                 \
    static void col2im_##suffix(const mt__conv *c, const type *from, type *image)                            \
    {                                                                                                        \
        const int64_t channels = c->in_channels / c->groups, area = c->in[0] * c->in[1];                     \
        memset(image, 0, (size_t)(channels * area) * sizeof(type));                                          \
        for (int64_t ch = 0; ch < channels; ch++)                                                            \
            for (int64_t ky = 0; ky < c->kernel[0]; ky++)                                                    \
                for (int64_t kx = 0; kx < c->kernel[1]; kx++) {                                              \
                    int64_t dx = kx * c->dilation[1] - c->padding[1], begin, end;                            \
                    mt__inside(c->out[1], c->stride[1], dx, c->in[1], &begin, &end);                         \
                    for (int64_t y = 0; y < c->out[0]; y++, from += c->out[1]) {                             \
                        int64_t iy = y * c->stride[0] + ky * c->dilation[0] - c->padding[0];                 \
                        if (iy < 0 || iy >= c->in[0])                                                        \
                            continue;                                                                        \
                        type *restrict row = image + ch * area + iy * c->in[1] + dx;                         \
                        if (c->stride[1] == 1)                                                               \
                            for (int64_t x = begin; x < end; x++)                                            \
                                row[x] += from[x];                                                           \
                        else                                                                                 \
                            for (int64_t x = begin; x < end; x++)                                            \
                                row[x * c->stride[1]] += from[x];                                            \
                    }                                                                                        \
                }                                                                                            \
    }
IMAGES(float, f32)
IMAGES(double, f64)

/* ------------------------------------------------------------------------------------------- one image */

/* Group g of image i, in a tensor with `channels` planes of `area` per image. */
static char *at(const job *j, const char *data, int64_t i, int64_t g, int64_t channels, int64_t area)
{
    return (char *)(uintptr_t)data + (size_t)((i * channels + g * (channels / j->c.groups)) * area) * j->size;
}

static mt__matrix rows_of(const char *data, int64_t rows, int64_t columns)
{
    return (mt__matrix){(void *)(uintptr_t)data, rows, columns, columns, 1};
}

static mt__matrix weights(const job *j, const char *data, int64_t g)
{
    int64_t out = j->c.out_channels / j->c.groups;
    return rows_of(data + (size_t)(g * out * j->patch) * j->size, out, j->patch);
}

static void *image_of(const job *j, const char *data, int64_t i, int64_t g)
{
    return at(j, data, i, g, j->c.in_channels, j->c.in[0] * j->c.in[1]);
}

static mt__matrix columns_of(const job *j, int64_t i, int64_t g, char *room)
{
    const char *image = image_of(j, j->input, i, g);
    if (j->direct)
        return rows_of(image, j->patch, j->area);
    if (j->size == 4)
        im2col_4(&j->c, (const uint32_t *)(const void *)image, (uint32_t *)(void *)room);
    else
        im2col_8(&j->c, (const uint64_t *)(const void *)image, (uint64_t *)(void *)room);
    return rows_of(room, j->patch, j->area);
}

static mt__matrix outputs(const job *j, const char *data, int64_t i, int64_t g)
{
    return rows_of(at(j, data, i, g, j->c.out_channels, j->area), j->c.out_channels / j->c.groups, j->area);
}

/* Initialises each row of the output to its bias. */
static void fill_bias(const job *j, const mt__matrix *out, int64_t first)
{
    for (int64_t o = 0; o < out->rows; o++) {
        char *row = (char *)out->data + (size_t)(o * out->columns) * j->size;
        const char *bias = j->bias + (size_t)(first + o) * j->size;
        if (j->size == 4)
            for (int64_t x = 0; x < out->columns; x++)
                ((uint32_t *)(void *)row)[x] = *(const uint32_t *)(const void *)bias;
        else
            for (int64_t x = 0; x < out->columns; x++)
                ((uint64_t *)(void *)row)[x] = *(const uint64_t *)(const void *)bias;
    }
}

/* A thread's room for columns and planes, kept until it ends: fresh pages cost more than what is computed in them. */
#define ROOM_KEPT ((size_t)16 << 20) /* bytes; more is given back */
#define ROOM_AT 64                   /* where the room begins: its size comes first */
static pthread_key_t room_key;
static pthread_once_t room_once = PTHREAD_ONCE_INIT;
static void make_room_key(void)
{
    pthread_key_create(&room_key, free);
}

static char *take_room(size_t bytes)
{
    pthread_once(&room_once, make_room_key);
    char *room = pthread_getspecific(room_key);
    if (room != NULL && *(size_t *)(void *)room >= bytes)
        return room + ROOM_AT;
    free(room);
    room = aligned_alloc(ROOM_AT, (bytes + 2 * ROOM_AT - 1) / ROOM_AT * ROOM_AT);
    if (pthread_setspecific(room_key, room) != 0) {
        pthread_setspecific(room_key, NULL); /* cannot fail: the slot exists, or there is none */
        free(room);
        room = NULL;
    }
    if (room == NULL)
        return NULL;
    *(size_t *)(void *)room = bytes;
    return room + ROOM_AT;
}

static void give_back(char *room)
{
    if (room == NULL || *(size_t *)(void *)(room - ROOM_AT) <= ROOM_KEPT)
        return;
    pthread_setspecific(room_key, NULL);
    free(room - ROOM_AT);
}

/* What a pass over images needs. */
static char *begin_images(job *j, mt__shifts_pass pass)
{
    size_t bytes = j->direct ? 0 : (size_t)(j->patch * j->area) * j->size;
    if (j->shifted)
        bytes = (size_t)mt__shifts_room(&j->shifts, pass) * sizeof(float);
    char *room = take_room(bytes);
    if (room == NULL)
        atomic_store(&j->failed, true);
    else if (j->shifted)
        memset(room, 0, (size_t)mt__shifts_zeros(&j->shifts, pass) * sizeof(float));
    return room;
}

static void note(job *j, mt_status status)
{
    if (status != MT_OK)
        atomic_store(&j->failed, true);
}

/* The bands of all images. */
static void forward_shifted(int64_t begin, int64_t end, void *user)
{
    job *j = user;
    char *room = begin_images(j, MT__SHIFTS_FORWARD);
    const int64_t step = mt__shifts_together(&j->shifts, MT__SHIFTS_FORWARD), bands = j->shifts.bands;
    const float *bias = (const float *)(const void *)j->bias;
    for (int64_t at = begin; at < end && room != NULL; at++)
        for (int64_t i = at / bands, g = 0; g < j->c.groups; g += step)
            mt__shifts_forward(&j->shifts, g, j->c.groups - g < step ? j->c.groups - g : step, at % bands,
                               image_of(j, j->input, i, g), j->packed,
                               bias != NULL ? bias + g * j->shifts.out_each : NULL,
                               outputs(j, j->output, i, g).data, (float *)(void *)room);
    give_back(room);
}

static void forward_columns(int64_t begin, int64_t end, void *user)
{
    job *j = user;
    char *room = begin_images(j, MT__SHIFTS_FORWARD);
    for (int64_t i = begin; i < end && room != NULL; i++)
        for (int64_t g = 0; g < j->c.groups; g++) {
            mt__matrix w = weights(j, j->weight, g), x = columns_of(j, i, g, room),
                       out = outputs(j, j->output, i, g);
            if (j->bias != NULL)
                fill_bias(j, &out, g * out.rows);
            note(j, mt__gemm(j->dtype, 1, &w, &x, j->bias != NULL ? 1 : 0, &out));
        }
    give_back(room);
}

static void backward_input(int64_t begin, int64_t end, void *user)
{
    job *j = user;
    char *room = begin_images(j, MT__SHIFTS_INPUT);
    const int64_t step = j->shifted ? mt__shifts_together(&j->shifts, MT__SHIFTS_INPUT) : 1;
    for (int64_t i = begin; i < end && room != NULL; i++)
        for (int64_t g = 0; g < j->c.groups; g += step) {
            void *image = image_of(j, j->grad_input, i, g);
            if (j->shifted) {
                int64_t groups = j->c.groups - g < step ? j->c.groups - g : step;
                mt__shifts_backward_input(&j->shifts, g, groups, outputs(j, j->grad, i, g).data, j->packed,
                                          image, (float *)(void *)room);
                continue;
            }
            mt__matrix w = mt__transposed(weights(j, j->weight, g)), y = outputs(j, j->grad, i, g);
            mt__matrix x = rows_of(j->direct ? image : room, j->patch, j->area);
            note(j, mt__gemm(j->dtype, 1, &w, &y, 0, &x));
            if (j->direct)
                continue;
            if (j->dtype == MT_FLOAT32)
                col2im_f32(&j->c, (const float *)(const void *)room, image);
            else
                col2im_f64(&j->c, (const double *)(const void *)room, image);
        }
    give_back(room);
}

static void shifted_weight(const job *j, int64_t first, int64_t last, char *sum, char *room)
{
    int64_t most = mt__shifts_together(&j->shifts, MT__SHIFTS_WEIGHT);
    memset(sum, 0, (size_t)j->sums * j->size);
    for (int64_t i = first; i < last; i += most)
        for (int64_t g = 0; g < j->c.groups; g++)
            mt__shifts_backward_weight(&j->shifts, g, last - i < most ? last - i : most,
                                       outputs(j, j->grad, i, g).data, image_of(j, j->input, i, g),
                                       (float *)(void *)sum, (float *)(void *)room);
}

/* Each part of the images accumulates its own gradient of the weights. */
static void backward_weight(int64_t begin, int64_t end, void *user)
{
    job *j = user;
    char *room = begin_images(j, MT__SHIFTS_WEIGHT);
    for (int64_t p = begin; p < end && room != NULL; p++) {
        char *sum = j->grad_weight + (size_t)(p * j->sums) * j->size;
        int64_t first = j->c.images * p / j->parts, last = j->c.images * (p + 1) / j->parts;
        if (j->shifted) {
            shifted_weight(j, first, last, sum, room);
            continue;
        }
        for (int64_t i = first; i < last; i++)
            for (int64_t g = 0; g < j->c.groups; g++) {
                mt__matrix x = mt__transposed(columns_of(j, i, g, room)), y = outputs(j, j->grad, i, g),
                           w = weights(j, sum, g);
                note(j, mt__gemm(j->dtype, 1, &y, &x, i == first ? 0 : 1, &w));
            }
    }
    give_back(room);
}

/* ---------------------------------------------------------------------------------------- depthwise */

static void deep_forward(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    mt__depth_forward(&j->c, begin, end, (const float *)(const void *)j->input,
                      (const float *)(const void *)j->weight, (const float *)(const void *)j->bias,
                      (float *)(void *)j->output);
}

static void deep_input(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    mt__depth_backward_input(&j->c, begin, end, (const float *)(const void *)j->grad,
                             (const float *)(const void *)j->weight, (float *)(void *)j->grad_input);
}

static void deep_weight(int64_t begin, int64_t end, void *user)
{
    const job *j = user;
    mt__depth_backward_weight(&j->c, begin, end, (const float *)(const void *)j->grad,
                              (const float *)(const void *)j->input, (float *)(void *)j->grad_weight);
}

/* n planes, or channels of all images. */
static void over_planes(job *j, int64_t n, int64_t images, void (*fn)(int64_t, int64_t, void *))
{
    int64_t work = images * j->area * j->patch;
    mt__parallel(n, (1 << 17) / (work + 1) + 1, fn, j);
}

/* ------------------------------------------------------------------------------------------------ kernels */

static mt_status begin(job *j, const mt__call *call, const mt_tensor *input, const mt_tensor *weight,
                       bool backward)
{
    mt_status status = mt__conv_read(call, input, weight, NULL, backward ? 4 : 3, &j->c);
    const mt__conv *c = &j->c;
    j->dtype = (mt_dtype)input->dtype;
    j->size = mt__size_of(input);
    j->area = c->out[0] * c->out[1];
    j->patch = c->in_channels / c->groups * c->kernel[0] * c->kernel[1];
    j->direct = c->kernel[0] == 1 && c->kernel[1] == 1 && c->stride[0] == 1 && c->stride[1] == 1 &&
                c->padding[0] == 0 && c->padding[1] == 0;
    j->deep = j->dtype == MT_FLOAT32 && status == MT_OK && mt__depth_fits(c);
    j->shifted = j->dtype == MT_FLOAT32 && !j->direct && !j->deep && status == MT_OK &&
                 mt__shifts_init(&j->shifts, c, backward);
    return status;
}

static mt_status pack(job *j, void (*how)(const mt__shifts *, const float *, float *))
{
    if (!j->shifted)
        return MT_OK;
    j->packed = malloc((size_t)mt__shifts_packed(&j->shifts) * sizeof(float));
    if (j->packed == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: weights of a convolution");
    how(&j->shifts, (const float *)(const void *)j->weight, j->packed);
    return MT_OK;
}

static void over_images(job *j, void (*fn)(int64_t, int64_t, void *))
{
    if (j->c.images >= mt_num_threads())
        mt__parallel(j->c.images, 1, fn, j);
    else
        fn(0, j->c.images, j);
}

static void run_forward(job *j)
{
    const int64_t bands = j->shifted ? j->shifts.bands : 1;
    const int64_t work = j->c.out_channels * j->patch * j->area / bands;
    if (bands > 1)
        mt__parallel(j->c.images * bands, (1 << 18) / (work + 1) + 1, forward_shifted, j);
    else
        over_images(j, j->shifted ? forward_shifted : forward_columns);
}

static mt_status end_of(job *j)
{
    return atomic_load(&j->failed) ? mt__fail(MT_E_NOMEM, "out of memory: columns of a convolution") : MT_OK;
}

mt_status mt__cpu_convolution(mt__call *call)
{
    mt_tensor *held[3] = {NULL};
    job j = {.output = call->outs[0]->data};
    mt_status status = begin(&j, call, mt__arg_tensor(call, 0), mt__arg_tensor(call, 1), false);
    for (unsigned i = 0; i < 3 && status == MT_OK; i++)
        if (mt__arg_given(call, i))
            status = mt__contiguous(mt__arg_tensor(call, i), &held[i]);
    if (status == MT_OK && call->outs[0]->numel > 0) {
        j.input = held[0]->data;
        j.weight = held[1]->data;
        j.bias = held[2] != NULL ? held[2]->data : NULL;
        if (j.deep)
            over_planes(&j, j.c.images * j.c.groups, 1, deep_forward);
        else
            status = pack(&j, mt__shifts_pack);
        if (status == MT_OK && !j.deep)
            run_forward(&j);
        if (status == MT_OK)
            status = end_of(&j);
        free(j.packed);
    }
    mt__shifts_fini(&j.shifts);
    for (unsigned i = 0; i < 3; i++)
        mt_release(held[i]);
    return status;
}

/* The first part becomes the sum of all. */
#define SUM_PARTS(type, suffix)                                                                              \
    static void sum_parts_##suffix(type *parts, int64_t count, int64_t n)                                    \
    {                                                                                                        \
        for (int64_t p = 1; p < count; p++)                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                  \
                parts[i] += parts[p * n + i];                                                                \
    }                                                                                                        \
    static void sum_bias_##suffix(int64_t begin, int64_t end, void *user)                                    \
    {                                                                                                        \
        const job *j = user;                                                                                 \
        for (int64_t o = begin; o < end; o++) {                                                              \
            double total = 0;                                                                                \
            for (int64_t i = 0; i < j->c.images; i++) {                                                      \
                const type *row =                                                                            \
                    (const type *)(const void *)j->grad + (i * j->c.out_channels + o) * j->area;             \
                type sums[16] = {0};                                                                         \
                int64_t x = 0;                                                                               \
                for (; x + 16 <= j->area; x += 16)                                                           \
                    for (int k = 0; k < 16; k++)                                                             \
                        sums[k] += row[x + k];                                                               \
                for (; x < j->area; x++)                                                                     \
                    sums[0] += row[x];                                                                       \
                for (int k = 0; k < 16; k++)                                                                 \
                    total += (double)sums[k];                                                                \
            }                                                                                                \
            ((type *)(void *)j->grad_bias)[o] = (type)total;                                                 \
        }                                                                                                    \
    }
SUM_PARTS(float, f32)
SUM_PARTS(double, f64)

MT__CLONES static bool all_finite(const float *x, int64_t n)
{
    float sum[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++)
            sum[l] += x[i + l] * 0.0f;
    for (; i < n; i++)
        sum[0] += x[i] * 0.0f;
    for (int l = 1; l < 16; l++)
        sum[0] += sum[l];
    return sum[0] == 0.0f;
}

static mt_status input_gradient(job *j, const mt_tensor *weight, mt_tensor *out)
{
    const bool shifted = j->shifted;
    mt_status status;
    j->grad_input = out->data;
    if (j->deep) {
        over_planes(j, j->c.images * j->c.groups, 1, deep_input);
        return MT_OK;
    }
    j->shifted = shifted && all_finite(weight->data, weight->numel);
    status = pack(j, mt__shifts_pack_backward);
    if (status == MT_OK) {
        over_images(j, backward_input);
        status = end_of(j);
    }
    free(j->packed);
    j->shifted = shifted;
    return status;
}

static mt_status weight_gradient(job *j, const mt_tensor *input, mt_tensor *out)
{
    int threads = mt_num_threads();
    if (j->c.images == 0 || j->area == 0 || out->numel == 0) {
        memset(out->data, 0, (size_t)out->numel * j->size);
        return MT_OK;
    }
    if (j->deep) {
        j->grad_weight = out->data;
        over_planes(j, j->c.groups, j->c.images, deep_weight);
        return MT_OK;
    }
    j->shifted = j->shifted && all_finite(input->data, input->numel);
    j->parts = j->c.images >= threads ? threads : 1;
    j->sums = j->shifted ? mt__shifts_sums(&j->shifts) : out->numel;
    j->grad_weight = malloc((size_t)(j->parts * j->sums) * j->size);
    if (j->grad_weight == NULL)
        return mt__fail(MT_E_NOMEM, "out of memory: gradients of a convolution's weights");
    if (j->parts > 1)
        mt__parallel(j->parts, 1, backward_weight, j);
    else
        backward_weight(0, 1, j);
    if (j->dtype == MT_FLOAT32)
        sum_parts_f32((float *)(void *)j->grad_weight, j->parts, j->sums);
    else
        sum_parts_f64((double *)(void *)j->grad_weight, j->parts, j->sums);
    if (j->shifted)
        mt__shifts_finish_weight(&j->shifts, (const float *)(const void *)j->grad_weight, out->data);
    else
        memcpy(out->data, j->grad_weight, (size_t)j->sums * j->size);
    free(j->grad_weight);
    return end_of(j);
}

mt_status mt__cpu_convolution_backward(mt__call *call)
{
    mt_tensor *held[3] = {NULL}; /* grad_output, input, weight */
    job j = {0};
    mt_status status = begin(&j, call, mt__arg_tensor(call, 1), mt__arg_tensor(call, 2), true);
    for (unsigned i = 0; i < 3 && status == MT_OK; i++)
        status = mt__contiguous(mt__arg_tensor(call, i), &held[i]);
    if (status == MT_OK) {
        j.grad = held[0]->data;
        j.input = held[1]->data;
        j.weight = held[2]->data;
        if (call->outs[0] != NULL && call->outs[0]->numel > 0)
            status = input_gradient(&j, held[2], call->outs[0]);
        if (call->outs[1] != NULL && status == MT_OK)
            status = weight_gradient(&j, held[1], call->outs[1]);
        if (call->outs[2] != NULL && status == MT_OK) {
            j.grad_bias = call->outs[2]->data;
            mt__parallel(j.c.out_channels, (1 << 15) / (j.c.images * j.area + 1) + 1,
                         j.dtype == MT_FLOAT32 ? sum_bias_f32 : sum_bias_f64, &j);
        }
    }
    mt__shifts_fini(&j.shifts);
    for (unsigned i = 0; i < 3; i++)
        mt_release(held[i]);
    return status;
}
