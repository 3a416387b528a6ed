/* c = alpha * a @ b + beta * c, with any strides: element (i, j) is at i * row + j * column. c is
 * dense and row-major. */
#if !defined(MATRIX_ONCE)
#define MATRIX_ONCE
#define TILE 64
#define TILE_DEEP 16
#define EACH 4
#define PANEL_DEEP 64
#define JOINED(a, b) a##b
#define VECTOR_OF(type) JOINED(type, 16)
#define V VECTOR_OF(T)
#endif

#if defined(NEED_tile)
/* For GPUs: a work-group of 16 x 16 computes a tile of 64 x 64, each work-item 4 x 4 of it. */
__kernel void NAME(long m, long n, long k, T alpha, T beta, __global const T *a, long a_at, long a_row, long a_column,
                   long a_step, __global const T *b, long b_at, long b_row, long b_column, long b_step, __global T *c,
                   long c_at, long c_step)
{
    __local T la[TILE_DEEP][TILE + 1], lb[TILE_DEEP][TILE + 1];
    const int tx = get_local_id(0), ty = get_local_id(1), me = ty * 16 + tx;
    const long i0 = (long)get_group_id(1) * TILE, j0 = (long)get_group_id(0) * TILE;
    a += a_at + get_group_id(2) * a_step;
    b += b_at + get_group_id(2) * b_step;
    c += c_at + get_group_id(2) * c_step;
    T sum[EACH][EACH];
    for (int u = 0; u < EACH; u++)
        for (int v = 0; v < EACH; v++)
            sum[u][v] = 0;
    for (long p0 = 0; p0 < k; p0 += TILE_DEEP) {
        for (int q = 0; q < EACH; q++) {
            const int e = q * 256 + me;
            /* neighbouring work-items read neighbouring memory */
            const int ai = a_column == 1 ? e / TILE_DEEP : e % TILE, ap = a_column == 1 ? e % TILE_DEEP : e / TILE;
            const int bj = b_column == 1 ? e % TILE : e / TILE_DEEP, bp = b_column == 1 ? e / TILE : e % TILE_DEEP;
            la[ap][ai] = i0 + ai < m && p0 + ap < k ? a[(i0 + ai) * a_row + (p0 + ap) * a_column] : (T)0;
            lb[bp][bj] = j0 + bj < n && p0 + bp < k ? b[(p0 + bp) * b_row + (j0 + bj) * b_column] : (T)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < TILE_DEEP; p++) {
            T x[EACH], y[EACH];
            for (int u = 0; u < EACH; u++) {
                x[u] = la[p][ty + 16 * u];
                y[u] = lb[p][tx + 16 * u];
            }
            for (int u = 0; u < EACH; u++)
                for (int v = 0; v < EACH; v++)
                    sum[u][v] += x[u] * y[v];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int u = 0; u < EACH; u++)
        for (int v = 0; v < EACH; v++) {
            const long i = i0 + ty + 16 * u, j = j0 + tx + 16 * v;
            if (i < m && j < n)
                c[i * n + j] = beta == 0 ? alpha * sum[u][v] : alpha * sum[u][v] + beta * c[i * n + j];
        }
}
#endif

#if defined(NEED_panel)
/* For CPUs: a work-item computes 16 x 16, from dense panels of b. */
__kernel void NAME(long m, long n, long k, T alpha, T beta, __global const T *a, long a_at, long a_row, long a_column,
                   long a_step, __global const T *b, long b_at, long b_row, long b_column, long b_step, __global T *c,
                   long c_at, long c_step)
{
    const long i0 = (long)get_global_id(1) * 16, j0 = (long)get_global_id(0) * 16;
    const int rows = (int)min(16L, m - i0), columns = (int)min(16L, n - j0);
    a += a_at + get_global_id(2) * a_step + i0 * a_row;
    b += b_at + get_global_id(2) * b_step + j0 * b_column;
    c += c_at + get_global_id(2) * c_step + i0 * n + j0;
    V sum[16], panel[PANEL_DEEP];
    T edge[16];
    for (int u = 0; u < 16; u++)
        sum[u] = (V)(0);
    for (long p0 = 0; p0 < k; p0 += PANEL_DEEP) {
        const int deep = (int)min((long)PANEL_DEEP, k - p0);
        for (int p = 0; p < deep; p++) {
            __global const T *row = b + (p0 + p) * b_row;
            if (columns == 16 && b_column == 1) {
                panel[p] = vload16(0, row);
            } else {
                for (int v = 0; v < 16; v++)
                    edge[v] = v < columns ? row[v * b_column] : (T)0;
                panel[p] = vload16(0, edge);
            }
        }
        for (int u = 0; u < rows; u += 4) { /* past the last row: repeats the last one */
            __global const T *a0 = a + u * a_row + p0 * a_column, *a1 = a0 + min(1, rows - 1 - u) * a_row;
            __global const T *a2 = a0 + min(2, rows - 1 - u) * a_row, *a3 = a0 + min(3, rows - 1 - u) * a_row;
            V s0 = (V)(0), s1 = (V)(0), s2 = (V)(0), s3 = (V)(0);
            for (int p = 0; p < deep; p++) {
                const V y = panel[p];
                s0 += a0[p * a_column] * y;
                s1 += a1[p * a_column] * y;
                s2 += a2[p * a_column] * y;
                s3 += a3[p * a_column] * y;
            }
            sum[u] += s0;
            sum[u + 1] += s1;
            sum[u + 2] += s2;
            sum[u + 3] += s3;
        }
    }
    for (int u = 0; u < rows; u++) {
        vstore16(sum[u] * alpha, 0, edge);
        for (int v = 0; v < columns; v++)
            c[u * n + v] = beta == 0 ? edge[v] : edge[v] + beta * c[u * n + v];
    }
}
#endif
