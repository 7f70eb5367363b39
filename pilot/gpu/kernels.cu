/* GPU kernels, compiled at run time: for NVIDIA by NVRTC, for AMD by HIPRTC.
 *
 * The first part measures rates of the GPU. The second part does the work of reference kernels of
 * pilot/kernels/, at the same problem sizes and with the same arrays. Every kernel takes the number
 * of its elements first; one thread computes one element.
 */
typedef long long whole;

#define HERE ((whole)blockIdx.x * blockDim.x + threadIdx.x)
enum { BLOCK = 256, CHAINS = 8 };

extern "C" {

/* ---- rates ---- */

__global__ void empty(whole n)
{
}

/* Goes over n elements again and again. A thread takes another element each time, a third of the
 * array further on, so that the elements come from the cache that all threads share. */
__global__ void repeated_triad(whole n, whole times, double *a, const double *b, const double *c)
{
    const whole step = n / 3 / 32 * 32;
    whole i = HERE;
    for (whole t = 0; t < times && HERE < n; t++) {
        a[i] = b[i] + 0.62 * c[i];
        i += step;
        if (i >= n)
            i -= n;
    }
}

/* Chains of fused multiply-adds: 2 * CHAINS * steps operations in each of n threads. */
#define FMA_CHAINS(name, real)                                                                     \
    __global__ void name(whole n, whole steps, real *out)                                          \
    {                                                                                              \
        const whole i = HERE;                                                                      \
        real sum[CHAINS];                                                                          \
        for (int k = 0; k < CHAINS; k++)                                                           \
            sum[k] = (real)(i + k);                                                                \
        for (whole s = 0; s < steps; s++)                                                          \
            for (int k = 0; k < CHAINS; k++)                                                       \
                sum[k] = sum[k] * (real)0.999 + (real)0.001;                                       \
        for (int k = 1; k < CHAINS; k++)                                                           \
            sum[0] += sum[k];                                                                      \
        if (i < n)                                                                                 \
            out[i] = sum[0];                                                                       \
    }
FMA_CHAINS(fma_f64, double)
FMA_CHAINS(fma_f32, float)

__global__ void one_address(whole n, double *at)
{
    if (HERE < n)
        atomicAdd(at, 1.0);
}

/* Eight updates a thread of neighbouring addresses, as where elements share their corners. */
__global__ void many_addresses(whole n, double *at)
{
    const whole i = HERE;
    if (i < n)
        for (int k = 0; k < 8; k++)
            atomicAdd(at + i + k, 1.0);
}

/* ---- reference kernels ---- */

__global__ void triad(whole n, double *a, const double *b, const double *c)
{
    const whole i = HERE;
    if (i < n)
        a[i] = b[i] + 0.62 * c[i];
}

__global__ void copy(whole n, double *to, const double *from)
{
    const whole i = HERE;
    if (i < n)
        to[i] = from[i];
}

__global__ void daxpy(whole n, double *y, const double *x)
{
    const whole i = HERE;
    if (i < n)
        y[i] += 0.62 * x[i];
}

__global__ void daxpy_atomic(whole n, double *y, const double *x)
{
    const whole i = HERE;
    if (i < n)
        atomicAdd(y + i, 0.62 * x[i]);
}

/* Adds the values of a block's threads to *sum. */
__device__ void add_block(double value, double *sum)
{
    __shared__ double part[BLOCK];
    part[threadIdx.x] = value;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(sum, part[0]);
}

__global__ void dot(whole n, const double *a, const double *b, double *sum)
{
    const whole i = HERE;
    add_block(i < n ? a[i] * b[i] : 0.0, sum);
}

__global__ void trap_int(whole n, double *sum)
{
    const whole i = HERE;
    const double x = 0.1 + (double)i * 0.7, xp = 0.3, y = 0.4, yp = 0.5;
    add_block(i < n ? 1.0 / sqrt((x - xp) * (x - xp) + (y - yp) * (y - yp)) : 0.0, sum);
}

__global__ void pi_atomic(whole n, double *pi)
{
    const whole i = HERE;
    const double dx = 1.0 / (double)n, x = ((double)i + 0.5) * dx;
    if (i < n)
        atomicAdd(pi, dx / (1.0 + x * x));
}

__global__ void if_quad(whole n, const double *a, const double *b, const double *c, double *x1,
                        double *x2)
{
    const whole i = HERE;
    if (i >= n)
        return;
    double s = b[i] * b[i] - 4.0 * a[i] * c[i];
    if (s >= 0) {
        s = sqrt(s);
        x2[i] = (-b[i] + s) / (2.0 * a[i]);
        x1[i] = (-b[i] - s) / (2.0 * a[i]);
    } else {
        x2[i] = 0.0;
        x1[i] = 0.0;
    }
}

__global__ void planckian(whole n, double *w, double *y, const double *u, const double *v,
                          const double *x)
{
    const whole i = HERE;
    if (i < n) {
        y[i] = u[i] / v[i];
        w[i] = x[i] / (exp(y[i]) - 1.0);
    }
}

__global__ void hydro_1d(whole n, double *x, const double *y, const double *z)
{
    const whole i = HERE;
    if (i < n)
        x[i] = 0.3 + y[i] * (0.4 * z[i + 10] + 0.5 * z[i + 11]);
}

/* One sweep over the inside of a square of side n. */
__global__ void jacobi_2d(whole n, const double *from, double *to)
{
    const whole i = HERE / (n - 2) + 1, j = HERE % (n - 2) + 1;
    if (i < n - 1)
        to[j + i * n] = 0.2 * (from[j + i * n] + from[j - 1 + i * n] + from[j + 1 + i * n] +
                               from[j + (i + 1) * n] + from[j + (i - 1) * n]);
}

__global__ void gemm(whole n, whole inner, const double *A, const double *B, double *C)
{
    const whole i = HERE / n, j = HERE % n;
    if (i >= n)
        return;
    double product = 0.0;
    for (whole k = 0; k < inner; k++)
        product += 0.62 * A[k + i * inner] * B[j + k * n];
    C[j + i * n] = product;
}

/* The first corner of the real zone of this number, on a mesh of `side` zones each way. */
__device__ whole corner(whole number, whole side)
{
    const whole row = side + 4;
    const whole i = number % side + 2, j = number / side % side + 2, k = number / side / side + 2;
    return i + row * (j + row * k);
}

__global__ void list_zones(whole n, whole side, whole *zones)
{
    if (HERE < n)
        zones[HERE] = corner(HERE, side);
}

__global__ void nodal(whole n, whole side, double *x, const double *vol, const whole *zones)
{
    const whole row = side + 4, plane = row * row;
    if (HERE >= n)
        return;
    const whole i = zones[HERE];
    const double part = 0.125 * vol[i];
    for (int k = 0; k < 8; k++)
        atomicAdd(x + i + (k & 1) + (k >> 1 & 1) * row + (k >> 2) * plane, part);
}

/* The triple product of three vectors, the first of which is a sum of two. */
__device__ double triple(double ax, double ay, double az, double bx, double by, double bz,
                         double cx, double cy, double cz, double dx, double dy, double dz)
{
    return (ax + bx) * (cy * dz - cz * dy) + (ay + by) * (cz * dx - cx * dz) +
           (az + bz) * (cx * dy - cy * dx);
}

#define EDGE(to, from) \
    const double x##to##from = x[i + at##to] - x[i + at##from]; \
    const double y##to##from = y[i + at##to] - y[i + at##from]; \
    const double z##to##from = z[i + at##to] - z[i + at##from];
#define TRIPLE(a, b, c, d) \
    triple(x##a, y##a, z##a, x##b, y##b, z##b, x##c, y##c, z##c, x##d, y##d, z##d)

__global__ void vol3d(whole n, whole side, const double *x, const double *y, const double *z,
                      double *vol)
{
    const whole row = side + 4, plane = row * row, i = HERE + plane + row + 1;
    const whole at0 = 0, at1 = 1, at2 = row, at3 = row + 1, at4 = plane, at5 = plane + 1;
    const whole at6 = plane + row, at7 = plane + row + 1;
    if (HERE >= n)
        return;
    EDGE(7, 1) EDGE(7, 2) EDGE(7, 4) EDGE(3, 0) EDGE(5, 0) EDGE(6, 0)
    double volume = TRIPLE(71, 60, 72, 30) + TRIPLE(72, 50, 74, 60);
    volume += TRIPLE(74, 30, 74, 60) + TRIPLE(74, 30, 71, 50);
    vol[i] = volume * (1.0 / 12.0);
}

} /* extern "C" */
