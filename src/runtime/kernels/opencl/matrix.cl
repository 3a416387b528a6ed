/* c = alpha * a @ b + beta * c, of matrices anywhere: element (i, j) at i * row + j * column. c is dense rows. A work-group
 * of 16 x 16 makes a tile of 64 x 64, each work-item 4 x 4 of it. */
#define TILE 64
#define DEEP 16
#define EACH 4

__kernel void NAME(long m, long n, long k, T alpha, T beta, __global const T *a, long a_at, long a_row, long a_column,
                   long a_step, __global const T *b, long b_at, long b_row, long b_column, long b_step, __global T *c,
                   long c_at, long c_step)
{
    __local T la[DEEP][TILE + 1], lb[DEEP][TILE + 1];
    const int tx = get_local_id(0), ty = get_local_id(1), me = ty * 16 + tx;
    const long i0 = (long)get_group_id(1) * TILE, j0 = (long)get_group_id(0) * TILE;
    a += a_at + get_group_id(2) * a_step;
    b += b_at + get_group_id(2) * b_step;
    c += c_at + get_group_id(2) * c_step;
    T sum[EACH][EACH];
    for (int u = 0; u < EACH; u++)
        for (int v = 0; v < EACH; v++)
            sum[u][v] = 0;
    for (long p0 = 0; p0 < k; p0 += DEEP) {
        for (int q = 0; q < EACH; q++) {
            const int e = q * 256 + me;
            /* neighbours in memory go to neighbouring work-items */
            const int ai = a_column == 1 ? e / DEEP : e % TILE, ap = a_column == 1 ? e % DEEP : e / TILE;
            const int bj = b_column == 1 ? e % TILE : e / DEEP, bp = b_column == 1 ? e / TILE : e % DEEP;
            la[ap][ai] = i0 + ai < m && p0 + ap < k ? a[(i0 + ai) * a_row + (p0 + ap) * a_column] : (T)0;
            lb[bp][bj] = j0 + bj < n && p0 + bp < k ? b[(p0 + bp) * b_row + (j0 + bj) * b_column] : (T)0;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int p = 0; p < DEEP; p++) {
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
