/* kernels/cpu/conv_shifts.c - the implementation of conv_shifts.h.
 *
 * Three products, all of dense rows:
 *     forward            out[o][q]     = sum over c, tap of weight[o][c][tap] * plane[c][q + shift(tap)]
 *     backward, input    plane[c][q]   = sum over o, tap of weight[o][c][tap] * grad[o][q - shift(tap)]
 *     backward, weight   w[o][c][tap]  = sum over q of grad[o][q] * plane[c][q + shift(tap)]
 * The first two are one kernel: a tile of some channels and neighbouring q, kept in registers.
 */
#pragma GCC optimize("fp-contract=fast")
#pragma GCC optimize("no-tree-loop-distribute-patterns") /* rows are too short for calls of memcpy */
#include "runtime/kernels/cpu/conv_shifts.h"
#include "runtime/kernels/cpu/clones.h"
#include "runtime/kernels/cpu/conv_tiles.h"
#include <stdlib.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#define BAND_ROWS 3 /* at least; more are read twice */
#define SLACK 64    /* floats after a plane that tiles may read and write */

/* ------------------------------------------------------------------------------------------------ geometry */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Where tap t of the kernel reads: its phase, and the shift within the plane. */
static int64_t phase_of(const mt__shifts *s, int64_t t, int64_t *shift)
{
    *shift = s->of_taps[2 * t + 1];
    return s->of_taps[2 * t];
}

/* Floats per channel of a gradient: `reach` zeros, because shifts go back that far, then a plane. */
static int64_t grad_plane(const mt__shifts *s)
{
    return s->reach + s->plane;
}

static bool make_shifts(mt__shifts *s, bool backward)
{
    const mt__conv *c = s->c;
    int64_t phases = s->phases[0] * s->phases[1], within, *to;
    int64_t channels = s->in_each + (backward ? s->out_each : 0);
    s->into_planes = malloc((size_t)((channels + 2) * s->taps + 8) * sizeof *to);
    if (s->into_planes == NULL)
        return false;
    s->of_taps = to = s->into_planes + s->in_each * s->taps + 8;
    for (int64_t t = 0; t < s->taps; t++) {
        int64_t dy = t / c->kernel[1] * c->dilation[0], dx = t % c->kernel[1] * c->dilation[1];
        *to++ = dy % c->stride[0] * s->phases[1] + dx % c->stride[1];
        *to++ = dy / c->stride[0] * s->width + dx / c->stride[1];
    }
    s->into_grads = to;
    for (int64_t phase = 0; phase < phases && backward; phase++)
        for (int64_t o = 0; o < s->out_each; o++)
            for (int64_t t = 0; t < s->taps; t++)
                if (phase_of(s, t, &within) == phase)
                    *to++ = o * grad_plane(s) + s->reach - within;
    to = s->into_planes;
    for (int64_t i = 0; i < s->in_each; i++)
        for (int64_t t = 0; t < s->taps; t++) {
            int64_t phase = phase_of(s, t, &within);
            *to++ = (i * phases + phase) * s->plane + within;
        }
    for (int t = 0; t < 8; t++)
        *to++ = 0; /* for the rest of the last block of taps */
    return true;
}

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

static const mt__tile *tile_for(int64_t channels)
{
    const mt__tiles *t = mt__conv_tiles();
    return channels == 1 ? &t->one : channels <= t->few.rows ? &t->few : &t->many;
}

/* Vectors of a tile of pixels. */
static int64_t vectors_of(int64_t channels)
{
    const int64_t lanes = mt__conv_tiles()->lanes;
    return round_up(channels, lanes) % (MT__PIXELS_VECTORS * lanes) == 0 ? MT__PIXELS_VECTORS : 1;
}

/* Tiles of pixels are used where they compute less beside the results, which takes longer to write; the number of
 * their vectors, else 0. */
static int64_t vectors_of_pixels(int64_t channels, int64_t k, int64_t height, int64_t width, int64_t wide)
{
    const mt__tiles *t = mt__conv_tiles();
    const mt__tile *other = tile_for(channels);
    const int64_t run = round_up((height - 1) * wide + width, other->wide),
                  rows = round_up(height, other->wide / t->lanes) * round_up(width, t->lanes);
    const bool less = round_up(channels, t->lanes) * height * width * (k + 8) <=
                      round_up(channels, other->rows) * least(run, rows) * (k + 2);
    return channels > 1 && less ? vectors_of(channels) : 0;
}

static int64_t channels_of_tile(int64_t channels, int64_t vectors)
{
    return vectors > 0 ? vectors * mt__conv_tiles()->lanes : tile_for(channels)->rows;
}

/* Few images are computed in bands of rows: a thread fills the planes that it reads, in its own room. */
static void choose_bands(mt__shifts *s)
{
    const int64_t threads = mt_num_threads(), each = s->c->out[0] / (BAND_ROWS * threads);
    s->fresh = s->c->groups == 1 && s->c->images <= threads;
    s->bands = s->fresh && s->c->images < threads && each > 0 ? threads * least(each, 2) : 1;
}

bool mt__shifts_init(mt__shifts *s, const mt__conv *c, bool backward)
{
    int64_t reach[2], size[2];
    *s = (mt__shifts){.c = c,
                      .in_each = c->in_channels / c->groups,
                      .out_each = c->out_channels / c->groups,
                      .taps = c->kernel[0] * c->kernel[1]};
    for (int d = 0; d < 2; d++) {
        reach[d] = (c->kernel[d] - 1) * c->dilation[d];
        s->phases[d] = least(c->stride[d], reach[d] + 1);
        size[d] = c->out[d] + reach[d] / c->stride[d];
    }
    s->height = size[0];
    s->width = size[1];
    s->reach = reach[0] / c->stride[0] * s->width + reach[1] / c->stride[1];
    s->plane = (s->height + 3) * s->width + SLACK; /* tiles of rows may read 3 more */
    s->pixels_in = vectors_of_pixels(s->out_each, s->in_each * s->taps, c->out[0], c->out[1], s->width);
    s->pixels_out = vectors_of_pixels(s->in_each, s->out_each * s->taps / (s->phases[0] * s->phases[1]),
                                      (c->in[0] + c->stride[0] - 1) / c->stride[0],
                                      (c->in[1] + c->stride[1] - 1) / c->stride[1], s->width);
    s->outer =
        4 * s->out_each >= 3 * round_up(s->out_each, mt__conv_tiles()->lanes) ? vectors_of(s->out_each) : 0;
    choose_bands(s);
    s->rows_in = channels_of_tile(s->out_each, s->pixels_in);
    s->rows_out = channels_of_tile(s->in_each, s->pixels_out);
    if (s->in_each == 0 || s->out_each == 0 || c->out[0] <= 0 || c->out[1] <= 0)
        return false;
    /* Results beside the image are wasted: at most a quarter, unless there are too few channels for the product
     * of columns to be fast. */
    bool narrow = s->in_each < 8 || s->out_each < 8;
    bool exact = s->pixels_in > 0 && s->pixels_out > 0 && c->out[1] >= 6;
    return (narrow || exact || 4 * c->out[1] >= 3 * s->width) && make_shifts(s, backward);
}

void mt__shifts_fini(mt__shifts *s)
{
    free(s->into_planes);
}

static int64_t forward_block(const mt__shifts *s)
{
    return round_up(s->out_each, s->rows_in) * s->in_each * s->taps;
}

static int64_t backward_block(const mt__shifts *s)
{
    return round_up(s->in_each, s->rows_out) * s->out_each * s->taps;
}

int64_t mt__shifts_packed(const mt__shifts *s)
{
    int64_t a = forward_block(s), b = backward_block(s);
    return s->c->groups * (a > b ? a : b);
}

static int64_t planes_size(const mt__shifts *s)
{
    return s->in_each * s->phases[0] * s->phases[1] * s->plane + SLACK;
}

static int64_t grads_size(const mt__shifts *s)
{
    return s->out_each * grad_plane(s) + SLACK;
}

/* Channels of a block of sums of outer products, and the blocks of a group. */
static int64_t outer_rows(const mt__shifts *s)
{
    return s->outer * mt__conv_tiles()->lanes;
}

static int64_t outer_blocks(const mt__shifts *s)
{
    return (s->out_each + outer_rows(s) - 1) / outer_rows(s);
}

/* Floats of the gradient of an image with the channels of a block side by side. */
static int64_t turned_size(const mt__shifts *s)
{
    return outer_blocks(s) * outer_rows(s) * s->c->out[0] * s->c->out[1];
}

int64_t mt__shifts_sums(const mt__shifts *s)
{
    const int64_t channels = s->outer > 0 ? outer_blocks(s) * outer_rows(s) : s->out_each;
    return s->c->groups * channels * s->in_each * s->taps;
}

/* Small images (pass: weights) or small groups (the others) are taken together, so that the fixed cost of a
 * product counts less. */
int64_t mt__shifts_together(const mt__shifts *s, mt__shifts_pass pass)
{
    int64_t n = 2048 / s->plane, have = pass == MT__SHIFTS_WEIGHT ? s->c->images : s->c->groups;
    if (pass == MT__SHIFTS_WEIGHT && s->outer > 0)
        n = 256 / (s->c->out[0] * s->c->out[1]); /* the gradients stay in the first-level cache */
    n = n < 1 ? 1 : n < 8 ? n : 8;
    return n < have ? n : have;
}

/* Floats of planes and gradients. */
static int64_t filled(const mt__shifts *s, mt__shifts_pass pass)
{
    int64_t each = 0;
    if (pass != MT__SHIFTS_INPUT)
        each += planes_size(s);
    if (pass == MT__SHIFTS_INPUT || (pass == MT__SHIFTS_WEIGHT && s->outer == 0))
        each += grads_size(s);
    return mt__shifts_together(s, pass) * each;
}

int64_t mt__shifts_zeros(const mt__shifts *s, mt__shifts_pass pass)
{
    return s->fresh ? 0 : filled(s, pass);
}

int64_t mt__shifts_room(const mt__shifts *s, mt__shifts_pass pass)
{
    int64_t turned = pass == MT__SHIFTS_WEIGHT && s->outer > 0 ? turned_size(s) : 0;
    return filled(s, pass) + mt__shifts_together(s, pass) * turned;
}

/* ------------------------------------------------------------------------------------------------- packing */

/* Packing and filling are split over the threads, too, less for their own sake than to wake the workers early. */
#define COPIES_EACH (1 << 14) /* floats that make a part worthwhile */

typedef struct packing {
    const mt__shifts *s;
    const float *weight;
    float *packed;
} packing;

/* Blocks of `rows` channels; in a block, product by product, a value for each channel. */
static void pack_blocks(int64_t begin, int64_t end, void *user)
{
    const packing *w = user;
    const mt__shifts *s = w->s;
    const int64_t k = s->in_each * s->taps, rows = s->rows_in, blocks = (s->out_each + rows - 1) / rows;
    for (int64_t at = begin; at < end; at++) {
        const int64_t first = at % blocks * rows, there = least(rows, s->out_each - first);
        const float *from = w->weight + (at / blocks * s->out_each + first) * k;
        float *to = w->packed + at * rows * k;
        if (there < rows)
            memset(to, 0, (size_t)(rows * k) * sizeof *to);
        mt__turn_pixels(from, there, k, k, rows, to);
    }
}

void mt__shifts_pack(const mt__shifts *s, const float *weight, float *packed)
{
    packing w = {s, weight, packed};
    mt__parallel(s->c->groups * forward_block(s) / (s->rows_in * s->in_each * s->taps),
                 COPIES_EACH / (s->rows_in * s->in_each * s->taps) + 1, pack_blocks, &w);
}

/* A group. The taps of a phase are together: first all of phase 0. */
static void pack_groups_backward(int64_t begin, int64_t end, void *user)
{
    const packing *w = user;
    const mt__shifts *s = w->s;
    const int64_t rows = s->rows_out, phases = s->phases[0] * s->phases[1];
    for (int64_t g = begin; g < end; g++) {
        float *to = w->packed + g * backward_block(s);
        for (int64_t phase = 0; phase < phases; phase++)
            for (int64_t first = 0; first < s->in_each; first += rows)
                for (int64_t o = 0; o < s->out_each; o++)
                    for (int64_t t = 0, shift; t < s->taps; t++) {
                        if (phase_of(s, t, &shift) != phase)
                            continue;
                        const float *from = w->weight + (g * s->out_each + o) * s->in_each * s->taps + t;
                        for (int64_t i = first; i < first + rows; i++)
                            *to++ = i < s->in_each ? from[i * s->taps] : 0;
                    }
    }
}

void mt__shifts_pack_backward(const mt__shifts *s, const float *weight, float *packed)
{
    packing w = {s, weight, packed};
    mt__parallel(s->c->groups, COPIES_EACH / backward_block(s) + 1, pack_groups_backward, &w);
}

/* ---------------------------------------------------------------------------------- planes and gradients */

MT__INLINE void zeros(float *restrict to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = 0;
}

MT__INLINE void every(float *restrict to, const float *restrict from, int64_t n, int64_t step)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
    else if (step == 2)
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * 2];
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i * step];
}

/* The rows [top, bottom) of a plane, and the zeros beside them, up to `last`, unless they are there. */
MT__INLINE void fill_rows(const mt__shifts *s, const float *from, int64_t row, int64_t step,
                          const int64_t *inside, int64_t last, float *to)
{
    const int64_t begin = inside[0], end = inside[1], top = inside[2], bottom = inside[3];
    if (s->fresh)
        zeros(to, top * s->width);
    for (int64_t y = top; y < bottom; y++) {
        if (s->fresh)
            zeros(to + y * s->width, begin);
        every(to + y * s->width + begin, from + y * row, end - begin, step);
        if (s->fresh)
            zeros(to + y * s->width + end, s->width - end);
    }
    if (s->fresh)
        zeros(to + bottom * s->width, last - bottom * s->width);
}

/* What the rows of outputs from `first` on need. */
MT__INLINE void fill_plane(const mt__shifts *s, const float *image, int64_t py, int64_t px, int64_t first,
                           int64_t rows, float *to)
{
    const mt__conv *c = s->c;
    const int64_t y = py - c->padding[0] + first * c->stride[0], x = px - c->padding[1];
    const int64_t height = rows + s->height - c->out[0],
                  last = rows < c->out[0] ? height * s->width : s->plane;
    int64_t inside[4];
    mt__inside(s->width, c->stride[1], x, c->in[1], &inside[0], &inside[1]);
    mt__inside(height, c->stride[0], y, c->in[0], &inside[2], &inside[3]);
    fill_rows(s, image + y * c->in[1] + x + inside[0] * c->stride[1], c->stride[0] * c->in[1], c->stride[1],
              inside, last, to);
}

typedef struct filling {
    const mt__shifts *s;
    const float *from;
    int64_t first, rows; /* of the outputs */
    float *to;
} filling;

MT__CLONES static void fill_some_planes(int64_t begin, int64_t end, void *user)
{
    const filling *f = user;
    const mt__shifts *s = f->s;
    const int64_t area = s->c->in[0] * s->c->in[1], phases = s->phases[0] * s->phases[1];
    for (int64_t i = begin; i < end; i++)
        for (int64_t p = 0; p < phases; p++)
            fill_plane(s, f->from + i * area, p / s->phases[1], p % s->phases[1], f->first, f->rows,
                       f->to + (i * phases + p) * s->plane);
}

static void fill_planes(const mt__shifts *s, const float *image, int64_t first, int64_t rows, float *planes)
{
    filling f = {s, image, first, rows, planes};
    mt__parallel(s->in_each, COPIES_EACH / (s->c->in[0] * s->c->in[1] + 1) + 1, fill_some_planes, &f);
}

/* Each channel in rows of the width of planes, after `reach` zeros. */
MT__CLONES static void fill_some_grads(int64_t begin, int64_t end, void *user)
{
    const filling *f = user;
    const mt__shifts *s = f->s;
    const int64_t *out = s->c->out, inside[4] = {0, out[1], 0, out[0]};
    for (int64_t o = begin; o < end; o++) {
        float *to = f->to + o * grad_plane(s);
        if (s->fresh)
            zeros(to, s->reach);
        fill_rows(s, f->from + o * out[0] * out[1], out[1], 1, inside, s->plane, to + s->reach);
    }
}

static void fill_grads(const mt__shifts *s, const float *grad, float *to)
{
    filling f = {s, grad, 0, s->c->out[0], to};
    mt__parallel(s->out_each, COPIES_EACH / (s->c->out[0] * s->c->out[1] + 1) + 1, fill_some_grads, &f);
}

/* ------------------------------------------------------------------------------------------------ products */

/* A product, and where its results go: rows of `wide` floats of each channel, of which the columns [begin, end)
 * are kept and written `step` apart. */
typedef struct product {
    int64_t channels, rows; /* rows: channels of a tile */
    int64_t pixels;         /* vectors of a tile of pixels, 0: tiles of neighbours */
    int64_t k;              /* products per result */
    const float *a, *b;     /* packed weights; planes or gradients */
    const int64_t *shift;   /* of each product */
    int64_t first, count;   /* the run of q */
    int64_t wide, begin, end;
    float *to;                  /* column 0 of the row of q = first, of the first channel */
    int64_t channel, row, step; /* strides of to */
    const float *bias;          /* may be NULL */
} product;

/* Writes n results that start at q, row by row. */
static inline void write_out(const product *p, const float *from, float *to, float bias, int64_t q, int64_t n)
{
    int64_t y = q / p->wide, x = q % p->wide;
    while (n > 0) {
        int64_t part = least(p->wide - x, n), end = least(p->end, x + part);
        float *restrict row = to + y * p->row;
        int64_t at = x > p->begin ? x : p->begin;
        if (p->step == 1)
            for (int64_t i = at; i < end; i++)
                row[i] = from[i - x] + bias;
        else
            for (int64_t i = at; i < end; i++)
                row[i * p->step] = from[i - x] + bias;
        from += part;
        n -= part;
        x = 0;
        y++;
    }
}

/* One run over all rows: the tile at q. Blocks of channels are the inner loop: a tile's part of the planes stays in the
 * cache, and the weights, read in order, are prefetched. */
static void tile_of_run(const product *p, const mt__tile *t, int64_t q)
{
    _Alignas(64) float out[MT__TILE_MAX];
    for (int64_t c = 0; c < p->channels; c += p->rows) {
        t->fn(p->k, p->a + c * p->k, p->b + p->first + q, mt__conv_tiles()->lanes, p->shift, out);
        for (int64_t i = 0; i < least(p->rows, p->channels - c); i++)
            write_out(p, out + i * t->wide, p->to + (c + i) * p->channel,
                      p->bias != NULL ? p->bias[c + i] : 0, q, least(t->wide, p->count - q));
    }
}

/* The vectors of channel c in a tile: each is part of a different row. */
static inline void write_rows(const product *p, const float *from, int64_t c, int64_t y, int64_t x,
                              int64_t deep)
{
    const float bias = p->bias != NULL ? p->bias[c] : 0;
    const int64_t lanes = mt__conv_tiles()->lanes, n = least(lanes, p->end - x);
    for (int64_t v = 0; v < deep; v++, from += lanes) {
        float *restrict to = p->to + c * p->channel + (y + v) * p->row + x * p->step;
        if (p->step == 1)
            for (int64_t l = 0; l < n; l++)
                to[l] = from[l] + bias;
        else
            for (int64_t l = 0; l < n; l++)
                to[l * p->step] = from[l] + bias;
    }
}

static int64_t rows_of(const product *p)
{
    return (p->count + p->wide - 1) / p->wide;
}

/* Each vector of a tile in a different row, the first at (y, x). */
static void tile_of_rows(const product *p, const mt__tile *t, int64_t y, int64_t x)
{
    _Alignas(64) float out[MT__TILE_MAX];
    const int64_t deep = least(t->wide / mt__conv_tiles()->lanes, rows_of(p) - y);
    for (int64_t c = 0; c < p->channels; c += p->rows) {
        t->fn(p->k, p->a + c * p->k, p->b + p->first + y * p->wide + x, p->wide, p->shift, out);
        for (int64_t i = 0; i < least(p->rows, p->channels - c); i++)
            write_rows(p, out + i * t->wide, c + i, y, x, deep);
    }
}

/* Tiles in a column, or 0 where one run takes less. */
static int64_t column_of(const product *p, const mt__tile *t)
{
    const int64_t lanes = mt__conv_tiles()->lanes, deep = t->wide / lanes;
    return round_up(rows_of(p), deep) * round_up(p->end - p->begin, lanes) <= round_up(p->count, t->wide)
               ? (rows_of(p) + deep - 1) / deep
               : 0;
}

static void product_tiles(int64_t begin, int64_t end, void *user)
{
    const product *p = user;
    const mt__tile *t = tile_for(p->channels);
    const int64_t lanes = mt__conv_tiles()->lanes, column = column_of(p, t);
    for (int64_t at = begin; at < end; at++)
        if (column > 0)
            tile_of_rows(p, t, at % column * (t->wide / lanes), p->begin + at / column * lanes);
        else
            tile_of_run(p, t, at * t->wide);
}

/* A tile of pixels turned round: n results of each of `channels`, which have `rows` floats each. */
static void write_pixels(const product *p, const float *from, int64_t n, int64_t channels, const float *bias,
                         float *to)
{
    int64_t c = 0;
#ifdef __SSE__
    if (p->step == 1 && n >= 4)
        for (; c + 4 <= channels; c += 4)
            for (int64_t i = 0; i < n; i += 4) {
                const float *at = from + least(i, n - 4) * p->rows + c; /* the last block overlaps */
                float *block = to + c * p->channel + least(i, n - 4);
                __m128 add = bias != NULL ? _mm_loadu_ps(bias + c) : _mm_setzero_ps();
                __m128 x0 = _mm_add_ps(_mm_loadu_ps(at), add),
                       x1 = _mm_add_ps(_mm_loadu_ps(at + p->rows), add),
                       x2 = _mm_add_ps(_mm_loadu_ps(at + 2 * p->rows), add),
                       x3 = _mm_add_ps(_mm_loadu_ps(at + 3 * p->rows), add);
                _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
                _mm_storeu_ps(block, x0);
                _mm_storeu_ps(block + p->channel, x1);
                _mm_storeu_ps(block + 2 * p->channel, x2);
                _mm_storeu_ps(block + 3 * p->channel, x3);
            }
#endif
    for (; c < channels; c++)
        for (int64_t i = 0; i < n; i++)
            to[c * p->channel + i * p->step] = from[i * p->rows + c] + (bias != NULL ? bias[c] : 0);
}

/* How a row is cut into tiles of pixels of about the same size. */
static int64_t tiles_of_row(const product *p)
{
    int64_t most = mt__conv_tiles()->pixels[p->pixels - 1];
    return (p->end - p->begin + most - 1) / most;
}

/* Tile `at` of all rows, for all channels. */
static void pixel_tile(const product *p, int64_t at, int64_t first, int64_t last)
{
    _Alignas(64) float out[MT__TILE_MAX];
    const int64_t tiles = tiles_of_row(p), y = at / tiles, wide = p->end - p->begin;
    const int64_t x = p->begin + wide * (at % tiles) / tiles,
                  n = p->begin + wide * (at % tiles + 1) / tiles - x;
    mt__pixels_fn *tile = mt__conv_tiles()->by_pixels[p->pixels - 1][n];
    for (int64_t c = first; c < last; c += p->rows) {
        tile(p->k, p->a + c * p->k, p->b + p->first + y * p->wide + x, p->shift, out);
        write_pixels(p, out, n, least(p->rows, last - c), p->bias != NULL ? p->bias + c : NULL,
                     p->to + c * p->channel + y * p->row + x * p->step);
    }
}

#define WEIGHTS_KEPT (1 << 17) /* floats: half of a large second-level cache */

/* Either the weights of all channels stay in the cache, or those of a block. */
static void product_pixels(int64_t begin, int64_t end, void *user)
{
    const product *p = user;
    const int64_t each = round_up(WEIGHTS_KEPT / p->k + 1, p->rows);
    for (int64_t c = 0; c < p->channels; c += each)
        for (int64_t at = begin; at < end; at++)
            pixel_tile(p, at, c, least(c + each, p->channels));
}

static void run_product(product *p)
{
    const mt__tile *t = tile_for(p->channels);
    const int64_t lanes = mt__conv_tiles()->lanes, column = column_of(p, t);
    int64_t count =
        column > 0 ? column * ((p->end - p->begin + lanes - 1) / lanes) : (p->count + t->wide - 1) / t->wide;
    if (p->pixels > 0)
        count = rows_of(p) * tiles_of_row(p);
    const int64_t each = p->channels * p->k * p->count / count;
    mt__parallel(count, (1 << 18) / (each + 1) + 1, p->pixels > 0 ? product_pixels : product_tiles, p);
}

void mt__shifts_forward(const mt__shifts *s, int64_t group, int64_t groups, int64_t band, const float *image,
                        const float *packed, const float *bias, float *out, float *room)
{
    const mt__conv *c = s->c;
    const int64_t area = c->out[0] * c->out[1], first = c->out[0] * band / s->bands,
                  last = c->out[0] * (band + 1) / s->bands;
    for (int64_t i = 0; i < groups; i++) /* all first: reading what was just written is slow */
        fill_planes(s, image + i * s->in_each * c->in[0] * c->in[1], first, last - first,
                    room + i * planes_size(s));
    for (int64_t i = 0; i < groups; i++)
        run_product(&(product){.channels = s->out_each,
                               .rows = s->rows_in,
                               .pixels = s->pixels_in,
                               .k = s->in_each * s->taps,
                               .a = packed + (group + i) * forward_block(s),
                               .b = room + i * planes_size(s),
                               .shift = s->into_planes,
                               .count = (last - first - 1) * s->width + c->out[1],
                               .wide = s->width,
                               .end = c->out[1],
                               .to = out + i * s->out_each * area + first * c->out[1],
                               .channel = area,
                               .row = c->out[1],
                               .step = 1,
                               .bias = bias != NULL ? bias + i * s->out_each : NULL});
}

static void input_phase(const mt__shifts *s, int64_t phase, product *p, float *grad_image)
{
    const mt__conv *c = s->c;
    int64_t py = phase / s->phases[1] - c->padding[0], px = phase % s->phases[1] - c->padding[1];
    int64_t top, bottom, within;
    p->k = 0;
    for (int64_t t = 0; t < s->taps; t++)
        p->k += phase_of(s, t, &within) == phase ? s->out_each : 0;
    mt__inside(s->width, c->stride[1], px, c->in[1], &p->begin, &p->end);
    mt__inside(s->height, c->stride[0], py, c->in[0], &top, &bottom);
    p->first = top * s->width;
    p->count = (bottom - top) * s->width;
    p->to = grad_image + (top * c->stride[0] + py) * c->in[1] + px;
    if (p->k > 0 && p->count > 0 && p->begin < p->end)
        run_product(p);
    p->a += round_up(s->in_each, s->rows_out) * p->k;
    p->shift += p->k;
}

void mt__shifts_backward_input(const mt__shifts *s, int64_t group, int64_t groups, const float *grad,
                               const float *packed, float *grad_image, float *room)
{
    const mt__conv *c = s->c;
    const int64_t area = c->in[0] * c->in[1], each = s->in_each * area;
    if (c->stride[0] > 1 || c->stride[1] > 1 || c->padding[0] + c->padding[1] > 0)
        memset(grad_image, 0,
               (size_t)(groups * each) * sizeof *grad_image); /* inputs that no window covers */
    for (int64_t i = 0; i < groups; i++)
        fill_grads(s, grad + i * s->out_each * c->out[0] * c->out[1], room + i * grads_size(s));
    for (int64_t i = 0; i < groups; i++) {
        product p = {.channels = s->in_each,
                     .rows = s->rows_out,
                     .pixels = s->pixels_out,
                     .a = packed + (group + i) * backward_block(s),
                     .b = room + i * grads_size(s),
                     .shift = s->into_grads,
                     .wide = s->width,
                     .channel = area,
                     .row = c->stride[0] * c->in[1],
                     .step = c->stride[1]};
        for (int64_t phase = 0; phase < s->phases[0] * s->phases[1]; phase++)
            input_phase(s, phase, &p, grad_image + i * each);
    }
}

/* -------------------------------------------------------------------------------- gradients of the weights */

typedef struct weight_job {
    const mt__shifts *s;
    mt__dots d;
    bool one; /* channel at a time */
    const float *planes, *grads;
    float *to;
} weight_job;

static void weight_rows(int64_t begin, int64_t end, void *user)
{
    const weight_job *j = user;
    const mt__shifts *s = j->s;
    const mt__tiles *kernel = mt__conv_tiles();
    const int64_t grads = j->one ? 1 : kernel->grads, taps = j->one ? kernel->dots1 : kernel->dots;
    const int64_t k = s->in_each * s->taps;
    float sums[64];
    for (int64_t o = begin * grads; o < least(end * grads, s->out_each); o += grads) {
        int64_t from = j->one ? o : least(o, s->out_each - grads); /* the last block overlaps */
        for (int64_t t = 0; t < k; t += taps) {
            (j->one ? kernel->dot1 : kernel->dot)(&j->d, j->grads + from * grad_plane(s) + s->reach,
                                                  j->planes, s->into_planes + t, sums);
            for (int64_t i = o - from; i < grads; i++)
                for (int64_t l = 0; l < least(taps, k - t); l++)
                    j->to[(from + i) * k + t + l] += sums[i * taps + l];
        }
    }
}

static void weight_dots(const mt__shifts *s, int64_t images, const float *grad, const float *image,
                        float *sums, float *room)
{
    const mt__conv *c = s->c;
    float *planes = room, *grads = room + mt__shifts_together(s, MT__SHIFTS_WEIGHT) * planes_size(s);
    weight_job j = {.s = s,
                    .d = {round_up((c->out[0] - 1) * s->width + c->out[1], 16), images, grad_plane(s),
                          grads_size(s), planes_size(s)},
                    .one = s->out_each < mt__conv_tiles()->grads,
                    .planes = planes,
                    .grads = grads,
                    .to = sums};
    for (int64_t i = 0; i < images; i++) {
        fill_planes(s, image + i * c->in_channels * c->in[0] * c->in[1], 0, c->out[0],
                    planes + i * j.d.b_image);
        fill_grads(s, grad + i * c->out_channels * c->out[0] * c->out[1], grads + i * j.d.g_image);
    }
    int64_t each = j.one ? 1 : mt__conv_tiles()->grads, work = each * images * j.d.n * s->in_each * s->taps;
    mt__parallel((s->out_each + each - 1) / each, (1 << 18) / (work + 1) + 1, weight_rows, &j);
}

typedef struct outer_job {
    const mt__shifts *s;
    mt__outer o;
    int64_t tiles; /* of a block */
    const float *planes, *turned;
    float *sums;
} outer_job;

static void outer_tiles(int64_t begin, int64_t end, void *user)
{
    const outer_job *j = user;
    const mt__shifts *s = j->s;
    const int64_t k = s->in_each * s->taps, rows = outer_rows(s), area = s->c->out[0] * s->c->out[1];
    for (int64_t at = begin; at < end; at++) {
        const int64_t block = at / j->tiles, tile = at % j->tiles;
        const int64_t first = k * tile / j->tiles, last = k * (tile + 1) / j->tiles;
        mt__conv_tiles()->outer[s->outer - 1][last - first](&j->o, j->turned + block * rows * area, j->planes,
                                                            s->into_planes + first,
                                                            j->sums + (block * k + first) * rows);
    }
}

static void weight_outer(const mt__shifts *s, int64_t images, const float *grad, const float *image,
                         float *sums, float *room)
{
    const mt__conv *c = s->c;
    const int64_t most = mt__conv_tiles()->pixels[s->outer - 1], rows = outer_rows(s),
                  area = c->out[0] * c->out[1];
    float *planes = room, *turned = room + mt__shifts_together(s, MT__SHIFTS_WEIGHT) * planes_size(s);
    const outer_job j = {.s = s,
                         .o = {images, c->out[0], c->out[1], s->width, turned_size(s), planes_size(s)},
                         .tiles = (s->in_each * s->taps + most - 1) / most,
                         .planes = planes,
                         .turned = turned,
                         .sums = sums};
    for (int64_t i = 0; i < images; i++) {
        fill_planes(s, image + i * c->in_channels * c->in[0] * c->in[1], 0, c->out[0],
                    planes + i * planes_size(s));
        if (s->out_each % rows > 0)
            memset(turned + i * turned_size(s), 0, (size_t)turned_size(s) * sizeof *turned);
        for (int64_t o = 0; o < s->out_each; o += rows)
            mt__turn_pixels(grad + (i * c->out_channels + o) * area, least(rows, s->out_each - o), area, area,
                            rows, turned + i * turned_size(s) + o * area);
    }
    const int64_t work = images * area * most * rows;
    mt__parallel(outer_blocks(s) * j.tiles, (1 << 18) / (work + 1) + 1, outer_tiles, (void *)(uintptr_t)&j);
}

void mt__shifts_backward_weight(const mt__shifts *s, int64_t group, int64_t images, const float *grad,
                                const float *image, float *sums, float *room)
{
    sums += group * (mt__shifts_sums(s) / s->c->groups);
    (s->outer > 0 ? weight_outer : weight_dots)(s, images, grad, image, sums, room);
}

void mt__shifts_finish_weight(const mt__shifts *s, const float *sums, float *grad_weight)
{
    const int64_t k = s->in_each * s->taps, rows = outer_rows(s), each = mt__shifts_sums(s) / s->c->groups;
    if (s->outer == 0) {
        memcpy(grad_weight, sums, (size_t)mt__shifts_sums(s) * sizeof *sums);
        return;
    }
    for (int64_t g = 0; g < s->c->groups; g++)
        for (int64_t o = 0; o < s->out_each; o++)
            for (int64_t p = 0; p < k; p++)
                grad_weight[(g * s->out_each + o) * k + p] =
                    sums[g * each + (o / rows * k + p) * rows + o % rows];
}
