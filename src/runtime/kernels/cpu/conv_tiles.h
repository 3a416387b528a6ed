/* kernels/cpu/conv_tiles.h - the inner loops of convolutions of float32, for several instruction sets: tiles of
 * results that stay in registers.
 *
 * A tile has some channels and some neighbouring results of each. Its vectors hold either neighbours (tile) or
 * channels (pixels); the latter compute nothing beside the image, but need as many channels as a vector has lanes.
 */
#ifndef KERNELS_CPU_CONV_TILES_H
#define KERNELS_CPU_CONV_TILES_H
#include <stdint.h>

#define MT__TILE_MAX 512     /* floats of a tile */
#define MT__PIXELS_MAX 16    /* neighbours of a tile of pixels */
#define MT__PIXELS_VECTORS 2 /* its vectors of channels, at most */

/* out[i][v] = sum over p < k of a[p][i] * b[shift[p] + v * gap...], for channels i and vectors v */
typedef void mt__tile_fn(int64_t k, const float *a, const float *b, int64_t gap, const int64_t *shift,
                         float *out);

/* out[i][c] = sum over p < k of a[p][c] * b[shift[p] + i], for neighbours i and channels c */
typedef void mt__pixels_fn(int64_t k, const float *a, const float *b, const int64_t *shift, float *out);

typedef struct mt__outer {
    int64_t images, height, width; /* of the gradient */
    int64_t row;                   /* of b */
    int64_t g_image, b_image;      /* images are apart by these */
} mt__outer;

/* sums[i][c] += sum over pixels (y, x) of g[y][x][c] * b[shift[i] + y * row + x], for channels c. Over several
 * images. */
typedef void mt__outer_fn(const mt__outer *o, const float *g, const float *b, const int64_t *shift,
                          float *sums);

typedef struct mt__dots {
    int64_t n, images, step, g_image, b_image; /* images are apart by g_image and b_image */
} mt__dots;

/* sums[i][t] = sum over q < n of g[i * step + q] * b[shift[t] + q]; n is a multiple of 16. Over several images. */
typedef void mt__dots_fn(const mt__dots *d, const float *g, const float *b, const int64_t *shift,
                         float *sums);

typedef struct mt__tile {
    int64_t rows, wide; /* channels and neighbours */
    mt__tile_fn *fn;
} mt__tile;

typedef struct mt__tiles {
    int64_t lanes;              /* of a vector */
    mt__tile many, few, one;    /* tiles of many channels, of at most few.rows, of one */
    int64_t grads, dots, dots1; /* channels and taps of dots; taps where there is one channel */
    int64_t pixels[2];          /* the most neighbours of a tile of pixels of one and two vectors */
    mt__dots_fn *dot, *dot1;
    mt__pixels_fn *const (*by_pixels)[MT__PIXELS_MAX + 1]; /* [vectors - 1][neighbours] */
    mt__outer_fn *const (*outer)[MT__PIXELS_MAX + 1];      /* [vectors - 1][shifts] */
} mt__tiles;

/* to[i][c] = from[c * channel + i] for i < n and some channels of `rows`. */
void mt__turn_pixels(const float *from, int64_t channels, int64_t channel, int64_t n, int64_t rows,
                     float *to);

/* Of this CPU. */
const mt__tiles *mt__conv_tiles(void);

#endif
