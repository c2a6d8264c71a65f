// The climb of estimator/_mle.py, a problem at a time in each thread: all of it in registers. And its
// starts (estimator/_starts.py), one trial a thread. Before this come likelihoods.cu and, for the
// problem at hand, READINGS (m), PARAMETERS (n), FAMILY (1 Laplace, 2 Cauchy, 3 1/Gaussian),
// KEPT and COUNT (fits screened and kept), THREADS of a block, BLOCKS a multiprocessor holds at
// least, and the constants of _mle.py.

#define M READINGS
#define N PARAMETERS
#define PAIRS (N * (N + 1) / 2)

__device__ inline Terms terms_of(double z, double eta, double sd, const double *own) {
#if FAMILY == 1
    return laplace_terms(z, eta, sd, own[0]);
#elif FAMILY == 2
    return voigt_terms(z, eta, sd, own[0]);
#else
    return inverse_terms(z, eta, sd, own[0], own[1]);
#endif
}

struct State {
    double height, gradient[N], scale[N], curvature[PAIRS], raised[PAIRS];
};

// Σℓ, Hᵀℓ', the diagonal of Hᵀ diag(w) H, Hᵀ diag(−ℓ'') H and the same with −ℓ'' raised.
__device__ inline void evaluate(const double *__restrict__ H, const double *__restrict__ z,
                                const double *__restrict__ sd, const double *__restrict__ own,
                                const double *theta, State *state) {
    state->height = 0;
    for (int j = 0; j < N; j++) state->gradient[j] = state->scale[j] = 0;
    for (int k = 0; k < PAIRS; k++) state->curvature[k] = state->raised[k] = 0;
#pragma unroll 1
    for (int i = 0; i < M; i++) {
        double row[N], eta = 0;
#pragma unroll
        for (int j = 0; j < N; j++) {
            row[j] = H[i * N + j];
            eta += row[j] * theta[j];
        }
        Terms found = terms_of(z[i], eta, sd[i], own);
        double raised = fmax(fabs(found.curvature), FLOOR * found.weight);
        state->height += found.value;
        int at = 0;
#pragma unroll
        for (int j = 0; j < N; j++) {
            state->gradient[j] += found.slope * row[j];
            state->scale[j] += found.weight * row[j] * row[j];
#pragma unroll
            for (int k = 0; k <= j; k++, at++) {
                double product = row[j] * row[k];
                state->curvature[at] += found.curvature * product;
                state->raised[at] += raised * product;
            }
        }
    }
}

// Solve A x = b by Cholesky (A: lower triangle by rows, overwritten); the least pivot in units of
// `scale` is returned, NaN if one is.
__device__ inline double solve(double *A, const double *b, const double *scale, double *x) {
    double margin = A[0] / scale[0];
#pragma unroll
    for (int i = 0; i < N; i++) {
        double pivot = A[i * (i + 1) / 2 + i], ratio = pivot / scale[i];
        if (!(margin <= ratio) && margin == margin) margin = ratio;
        double root = 1.0 / sqrt(pivot > 0 ? pivot : 1.0);
        A[i * (i + 1) / 2 + i] = root;
        x[i] = b[i];
#pragma unroll
        for (int k = 0; k < i; k++) x[i] -= A[i * (i + 1) / 2 + k] * x[k];
        x[i] *= root;
#pragma unroll
        for (int j = i + 1; j < N; j++) A[j * (j + 1) / 2 + i] *= root;
#pragma unroll
        for (int j = i + 1; j < N; j++)
#pragma unroll
            for (int k = i + 1; k <= j; k++)
                A[j * (j + 1) / 2 + k] -= A[j * (j + 1) / 2 + i] * A[k * (k + 1) / 2 + i];
    }
#pragma unroll
    for (int i = N - 1; i >= 0; i--) {
#pragma unroll
        for (int j = i + 1; j < N; j++) x[i] -= A[j * (j + 1) / 2 + i] * x[j];
        x[i] *= A[i * (i + 1) / 2 + i];
    }
    return margin;
}

__device__ inline double product(const double *a, const double *b) {
    double sum = 0;
#pragma unroll
    for (int j = 0; j < N; j++) sum += a[j] * b[j];
    return sum;
}

// The next problem that nobody has begun.
__device__ inline long long taken(unsigned long long *next) {
#ifdef __CUDACC__
    return (long long)atomicAdd(next, 1ULL);
#else
    return (long long)(*next)++;
#endif
}

// A thread climbs problem after problem until none is left: those that need few steps do not wait
// for their neighbours that need many. One evaluation a turn, whatever the problem's state.
__device__ inline void climb_many(unsigned long long *next, long long problems,
                                  const double *__restrict__ H, const double *__restrict__ z,
                                  const double *__restrict__ sd, const double *__restrict__ own,
                                  const double *__restrict__ begin, int starts, int iterations,
                                  double *theta_out, double *height_out, unsigned char *found_out,
                                  long long *spent_out, double *size_out) {
    double theta[N], step[N], tried[N];
    double height = 0, length = 1.0, promised = 0, size = 0;
    bool found = false, leaving = false;
    int spent = 0;
    State state;
    long long problem = taken(next);
    if (problem >= problems) return;
    for (int j = 0; j < N; j++) tried[j] = begin[problem * N + j];
    for (;;) {
        evaluate(H, z + problem / starts * M, sd, own, tried, &state);
        double hoped = length * promised, rise = state.height - height;
        if (spent == 0 || rise >= RISE * hoped - ROUNDING * fabs(height)) {
            for (int j = 0; j < N; j++) theta[j] = tried[j];
            height = state.height;
            length = 1.0;
            double margin = solve(state.curvature, state.gradient, state.scale, step);
            promised = product(step, state.gradient);
            bool positive = margin > POSITIVE;
            found = positive && promised <= TOLERANCE * TOLERANCE;
            if (!positive || (margin <= SAFE && promised >= NEAR)) {
                solve(state.raised, state.gradient, state.scale, step);
                promised = product(step, state.gradient);
            }
            leaving = found || (!positive && promised <= FLAT);
            size = 0;
            for (int j = 0; j < N; j++)
                size += state.gradient[j] * state.gradient[j] / state.scale[j];
        } else {
            double best = 0.5 * hoped / (hoped - rise);
            length *= best < SHORTEST ? SHORTEST : (best > LONGEST ? LONGEST : best);
        }
        spent++;
        if (leaving || spent >= iterations) {
            for (int j = 0; j < N; j++)
                theta_out[problem * N + j] = theta[j] + (found ? step[j] : 0.0);
            height_out[problem] = height;
            found_out[problem] = found;
            spent_out[problem] = spent;
            size_out[problem] = sqrt(size);
            problem = taken(next);
            if (problem >= problems) return;
            for (int j = 0; j < N; j++) tried[j] = begin[problem * N + j];
            spent = 0;
            length = 1.0;
            leaving = false;
        } else {
            for (int j = 0; j < N; j++) tried[j] = theta[j] + length * step[j];
        }
    }
}

#define BETTER(a, b) ((a) > (b))

__device__ inline double rough_of(double z, double eta, double sd, const double *own) {
#if FAMILY == 1
    return laplace_terms(z, eta, sd, own[0]).value;
#elif FAMILY == 2
    return voigt_rough(z, eta, sd, own[0]);
#else
    return inverse_rough(z, eta, own[0], own[1]);
#endif
}

// Put (score, which, label) into a list sorted by falling score; returns the new length.
__device__ inline int insert(double *scores, int *which, unsigned long long *labels, int length,
                             int most, double score, int one, unsigned long long label) {
    if (length == most) {
        if (!BETTER(score, scores[most - 1])) return length;
        length--;
    }
    int at = length;
    for (; at > 0 && BETTER(score, scores[at - 1]); at--) {
        scores[at] = scores[at - 1];
        which[at] = which[at - 1];
        if (labels) labels[at] = labels[at - 1];
    }
    scores[at] = score;
    which[at] = one;
    if (labels) labels[at] = label;
    return length + 1;
}

__device__ inline void fit(const int *__restrict__ rows, const double *__restrict__ inverse,
                           const double *__restrict__ centre, double *theta) {
    for (int j = 0; j < N; j++) {
        theta[j] = 0;
        for (int k = 0; k < N; k++) theta[j] += inverse[j * N + k] * centre[rows[k]];
    }
}

// The best COUNT exact fits of a trial by likelihood, of the KEPT best by a rough one.
__device__ inline void screen_one(long long trial, const double *__restrict__ H,
                                  const double *__restrict__ z, const double *__restrict__ centre,
                                  const double *__restrict__ sd, const double *__restrict__ own,
                                  const int *__restrict__ rows, const double *__restrict__ inverses,
                                  int fits, double *begin) {
    z += trial * M;
    centre += trial * M;
    double theta[N], scores[KEPT];
    int which[KEPT], length = 0;
#if FAMILY == 3
    // First the best fit on each combination of humps, then the others.
    double others[KEPT];
    int rest[KEPT], left = 0;
    unsigned long long labels[KEPT];
#endif
    for (int f = 0; f < fits; f++) {
        fit(rows + f * N, inverses + f * N * N, centre, theta);
        double score = 0;
        unsigned long long label = 0;
        for (int i = 0; i < M; i++) {
            double eta = 0;
            for (int j = 0; j < N; j++) eta += H[i * N + j] * theta[j];
            score += rough_of(z[i], eta, sd[i], own);
            label |= (unsigned long long)(eta > 0) << i;
        }
#if FAMILY == 3
        int same = 0;
        while (same < length && labels[same] != label) same++;
        if (same == length) {
            length = insert(scores, which, labels, length, KEPT, score, f, label);
        } else if (BETTER(score, scores[same])) {
            left = insert(others, rest, 0, left, KEPT, scores[same], which[same], 0);
            for (; same < length - 1; same++) {
                scores[same] = scores[same + 1];
                which[same] = which[same + 1];
                labels[same] = labels[same + 1];
            }
            length = insert(scores, which, labels, length - 1, KEPT, score, f, label);
        } else {
            left = insert(others, rest, 0, left, KEPT, score, f, 0);
        }
#else
        length = insert(scores, which, 0, length, KEPT, score, f, label);
#endif
    }
#if FAMILY == 3
    for (int k = 0; length < KEPT && k < left; k++) which[length++] = rest[k];
#endif
    double heights[COUNT];
    int best[COUNT], chosen = 0;
    for (int f = 0; f < length; f++) {
        fit(rows + which[f] * N, inverses + which[f] * N * N, centre, theta);
        double height = 0;
        for (int i = 0; i < M; i++) {
            double eta = 0;
            for (int j = 0; j < N; j++) eta += H[i * N + j] * theta[j];
            height += terms_of(z[i], eta, sd[i], own).value;
        }
        chosen = insert(heights, best, 0, chosen, COUNT, height, which[f], 0);
    }
    for (int k = 0; k < chosen; k++) {
        fit(rows + best[k] * N, inverses + best[k] * N * N, centre, theta);
        for (int j = 0; j < N; j++) begin[((trial * (COUNT + 1)) + 1 + k) * N + j] = theta[j];
    }
}

#ifdef __CUDACC__
#define THREAD ((long long)blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    climb(long long threads, long long problems, unsigned long long *next, const double *H,
          const double *z, const double *sd, const double *own, const double *begin, int starts,
          int iterations, double *theta, double *height, unsigned char *found, long long *spent,
          double *size) {
    climb_many(next, problems, H, z, sd, own, begin, starts, iterations, theta, height, found,
               spent, size);
}

extern "C" __global__ void screen(long long trials, const double *H, const double *z,
                                  const double *centre, const double *sd, const double *own,
                                  const int *rows, const double *inverses, int fits,
                                  double *begin) {
    long long trial = THREAD;
    if (trial < trials)
        screen_one(trial, H, z, centre, sd, own, rows, inverses, fits, begin);
}
#endif
