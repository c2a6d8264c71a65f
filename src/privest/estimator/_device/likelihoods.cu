// ℓ(z, η) of one release with two derivatives in η and the EM weight, for a graphics processor:
// the formulas of estimator/likelihood/_additive.py, _voigt.py, _pieces.py and _inverse.py, a
// reading a call. Before this come VOIGT_STEP and the tables VOIGT_NODE, VOIGT_WEIGHT, GAUSS_NODE
// and GAUSS_WEIGHT, written by _kernels.py. tests/unit/estimator/test_device_source.py compiles the
// same text for a processor and compares.

#ifndef PI
#define PI 3.141592653589793
#endif
#define ROOT_HALF 0.7071067811865476
#define ROOT_2PI 2.5066282746310002
#define NOTHING 100.0
#define INFINITE 1e300
// Long code that is called from several places: once, so that the instructions stay in their cache.
#ifdef __CUDACC__
#define SHARED_CODE __noinline__
#else
#define SHARED_CODE inline
#endif

struct Terms {
    double value, slope, curvature, weight;
};

__device__ inline double sign_of(double x) { return (x > 0) - (x < 0); }

// ---- Laplace: f = N(0, σ²) * Laplace(b) -------------------------------------------------------

__device__ inline Terms laplace_terms(double z, double eta, double sd, double scale) {
    double r = z - eta;
    double k = sd / scale, t = fabs(r) / sd, a = (t - k) * ROOT_HALF;
    bool beyond = a > 0;
    double small = beyond ? exp(-fmin(a * a, 700.0)) : 1.0;
    double near = erfcx(fabs(a));
    double P = beyond ? 2.0 - small * near : near;
    double other = erfcx((t + k) * ROOT_HALF);
    double both = P + small * other;
    double exponent = beyond ? (0.5 * k - t) * k : -0.5 * t * t;
    double inverse = 1.0 / (both * scale);
    Terms found;
    found.value = exponent + log(both) - log(4.0 * scale);
    found.slope = sign_of(r) * (P - small * other) * inverse;
    found.curvature = 4.0 * small * (both / (ROOT_2PI * k) - P * other) * inverse * inverse;
    found.weight = fabs(r) < 1e-8 * sd ? found.curvature : found.slope / r;
    return found;
}

// ---- Cauchy: the Voigt profile by the trapezoid rule (_voigt.py) ------------------------------

__device__ inline void voigt_profile(double point, double y, double *K, double *slope, double *bend) {
    const double period = 2.0 * PI / VOIGT_STEP;
    double x = fabs(point), part = x / VOIGT_STEP;
    part -= floor(part);
    bool half = part < 0.25 || part > 0.75;
    double sign = half ? 1.0 : -1.0, square = y * y, from = half ? x - 0.5 * VOIGT_STEP : x;
    double first = 0, tilt = 0, second = 0, third = 0;
#pragma unroll
    for (int j = 0; j < VOIGT_NODES; j++) {
        double d = from - VOIGT_NODE[j];
        double q = 1.0 / (d * d + square);
        double term = (half ? VOIGT_WEIGHT[1][j] : VOIGT_WEIGHT[0][j]) * q;
        first += term;
        term *= q;
        second += term;
        tilt += term * d;
        third += term * q;
    }
    first *= y;
    tilt *= -2.0 * y;
    second = y * (6.0 * second - 8.0 * square * third);
    if (y < 0.5 * period && x < 40.0) {
        double turn_sin, turn_cos, angle_sin, angle_cos;
        sincos(2.0 * PI * part, &turn_sin, &turn_cos);
        sincos(2.0 * x * y, &angle_sin, &angle_cos);
        double fall = exp(-period * y);
        double er = fall * turn_cos, ei = fall * turn_sin, ir = er + sign;
        double size = 1.0 / (ir * ir + ei * ei);
        ir *= size;
        double ii = -ei * size;
        double vr = er * ir - ei * ii, vi = er * ii + ei * ir;
        double height = 2.0 * exp((y - x) * (y + x));
        double wr = height * angle_cos, wi = -height * angle_sin;
        double cr = wr * vr - wi * vi, ci = wr * vi + wi * vr;
        double own = period * sign, bent = period * own;
        double ur = -2.0 * x - own * ii, ui = own * ir - 2.0 * y;
        double sr = ur * ur - ui * ui + (bent * (vr * ir - vi * ii) - 2.0);
        double si = 2.0 * ur * ui + bent * (vr * ii + vi * ir);
        first += cr;
        tilt += cr * ur - ci * ui;
        second += cr * sr - ci * si;
    }
    double inverse = 1.0 / first;
    *K = first;
    *slope = sign_of(point) * tilt * inverse;
    *bend = second * inverse;
}

__device__ inline Terms voigt_terms(double z, double eta, double sd, double scale) {
    double r = z - eta, unit = 1.0 / (sd * 1.4142135623730951);
    double K, slope, bend;
    voigt_profile(r * unit, scale * unit, &K, &slope, &bend);
    Terms found;
    found.value = log(K) - log(sd * ROOT_2PI);
    found.slope = -slope * unit;
    found.curvature = (slope * slope - bend) * unit * unit;
    found.weight = fabs(r) < 1e-8 * sd ? found.curvature : found.slope / r;
    return found;
}

__device__ inline double voigt_rough(double z, double eta, double sd, double scale) {
    double r = (z - eta) / (scale + 0.5 * sd);
    return -log1p(r * r);
}

// ---- 1/Gaussian: pieces of Gaussians (_pieces.py, _inverse.py) --------------------------------

// ∫_α^∞ (x − x₀)^k φ(x)/φ(x₀) dx = √(2π) T_k, k = 0..3, about x₀ = max(α, 0)
__device__ SHARED_CODE void tail(double alpha, double T[4]) {
    const double root = 1.0 / ROOT_2PI;
    double mills = 0.5 * erfcx(fabs(alpha) * ROOT_HALF);
    if (alpha <= 0) {
        double low = fmax(alpha, -40.0), inner = exp(-0.5 * low * low);
        T[0] = 1.0 - inner * mills;
        T[1] = root * inner;
        T[2] = T[0] + low * T[1];
        T[3] = (2.0 + low * low) * T[1];
    } else if (alpha <= 3.0) {
        T[0] = mills;
        T[1] = root - alpha * mills;
        T[2] = T[0] - alpha * T[1];
        T[3] = 2.0 * T[1] - alpha * T[2];
    } else {
        // T_k/T_{k−1} = k/(α + T_{k+1}/T_k) read backwards from its limit, as a fraction p/q of
        // positive numbers in units of 1/α: a chain of divisions would wait for each of them.
        double inverse = 1.0 / alpha, v = inverse * inverse;
        double p = 64.0 / (sqrt(1.0 + 128.0 * v) + 1.0), q = 1.0;
#pragma unroll
        for (int k = 31; k > 3; k--) {
            double next = q + v * p;
            p = k * q;
            q = next;
        }
        double q3 = q + v * p, q2 = q3 + 3.0 * v * q, q1 = q2 + 2.0 * v * q3;
        T[0] = mills;
        T[1] = mills * inverse / q1;
        T[3] = 6.0 * v * q * T[1];
        T[2] = 2.0 * inverse * q3 * T[1];
        T[1] *= q2;
    }
}

// The same between α and β = α + width, about the point x₀ of [α, β] that is nearest to 0.
__device__ SHARED_CODE void span(double alpha, double beta, double width, double T[4]) {
    bool mirrored = alpha + beta < 0;
    if (mirrored) {
        double other = -alpha;
        alpha = -beta;
        beta = other;
    }
    bool inside = alpha <= 0;
    double start = fmax(alpha, 0.0), gap = inside ? beta : width;
    double drop = gap * (start + 0.5 * gap);
    if (inside ? beta <= 2.0 : drop <= 3.0) {
        double low = fmin(alpha, 0.0), unit = width * (0.5 / ROOT_2PI);
        for (int k = 0; k < 4; k++) T[k] = 0;
        for (int j = 0; j < GAUSS_NODES; j++) {
            double t = low + width * (0.5 * (1.0 + GAUSS_NODE[j]));
            double part = exp(-t * (start + 0.5 * t)) * GAUSS_WEIGHT[j] * unit;
            T[0] += part;
            T[1] += part * t;
            T[2] += part * t * t;
            T[3] += part * t * t * t;
        }
    } else {
        tail(alpha, T);
        if (drop < NOTHING) {
            double F[4], fall = exp(-drop), s = gap;
            tail(beta, F);
            T[0] -= fall * F[0];
            T[1] -= fall * (F[0] * s + F[1]);
            T[2] -= fall * ((F[0] * s + 2.0 * F[1]) * s + F[2]);
            T[3] -= fall * (((F[0] * s + 3.0 * F[1]) * s + 3.0 * F[2]) * s + F[3]);
        }
    }
    if (mirrored) {
        T[1] = -T[1];
        T[3] = -T[3];
    }
}

struct Piece {
    double m0, m1, m2;
};

// ∫ (w0 + w1 (y − at)) (y − at)^k N(y; ·) with moments T about `at` in units of s
__device__ inline Piece piece(double s, const double T[4], double w0, double w1, double sd) {
    double part = s / sd;
    Piece found;
    found.m0 = part * (w0 * T[0] + s * w1 * T[1]);
    part *= s;
    found.m1 = part * (w0 * T[1] + s * w1 * T[2]);
    part *= s;
    found.m2 = part * (w0 * T[2] + s * w1 * T[3]);
    return found;
}

#define LEAST 1e-140

// `wide` is the standard deviation τ of the noise, `edge` the truncation ε. What lies e^-NOTHING
// below the largest piece is not computed: it would change no digit.
__device__ SHARED_CODE Terms inverse_terms(double z, double given, double sd, double wide,
                                           double edge) {
    double side = z < 0 ? -1.0 : 1.0, size = fmax(fabs(z), LEAST), eta = side * given;
    double variance = sd * sd, own = (wide * size) * (wide * size), total = variance + own;
    double mu = (variance * size + own * eta) / total, s = sqrt(variance * own / total);
    double at[3], alpha[2], scale[3], away;
    for (int k = 0; k < 2; k++) {  // y > ε, and y < −ε mirrored
        double turn = k == 0 ? 1.0 : -1.0, centre = turn * mu;
        alpha[k] = (edge - centre) / s;
        at[k] = turn * (alpha[k] > 0 ? edge : centre);
        away = (at[k] / size - 1.0) / wide;
        scale[k] = -0.5 * away * away - 0.5 * (at[k] - eta) * (at[k] - eta) / variance;
    }
    double low = (-edge - eta) / sd, high = (edge - eta) / sd, less = 0, top;
    at[2] = high < 0 ? edge : (low > 0 ? -edge : eta);
    scale[2] = -INFINITE;
    if (edge > 0) {
        double up = (edge / size - 1.0) / wide, down = (-edge / size - 1.0) / wide;
        up = -0.5 * up * up;
        less = exp(fmax(-0.5 * down * down - up, -700.0));
        scale[2] = up - 0.5 * (at[2] - eta) * (at[2] - eta) / variance;
    }
    top = fmax(fmax(scale[0], scale[1]), scale[2]);
    double mass = 0, sum = 0, T[4];
    Piece pieces[3];
    for (int k = 0; k < 3; k++) {
        pieces[k].m0 = pieces[k].m1 = pieces[k].m2 = 0;
        if (!(top - scale[k] < NOTHING)) continue;
        if (k == 2) {
            span(low, high, 2.0 * edge / sd, T);
            double weight = 0.5 * ((edge + at[2]) + (edge - at[2]) * less);
            pieces[k] = piece(sd, T, weight, 0.5 * (1.0 - less), sd);
        } else {
            double turn = k == 0 ? 1.0 : -1.0;
            tail(alpha[k], T);
            T[1] *= turn;
            T[3] *= turn;
            pieces[k] = piece(s, T, turn * at[k], turn, sd);
        }
        double factor = exp(scale[k] - top);
        pieces[k].m0 *= factor;
        pieces[k].m1 *= factor;
        pieces[k].m2 *= factor;
        mass += pieces[k].m0;
        sum += (at[k] - eta) * pieces[k].m0 + pieces[k].m1;
    }
    double off = sum / mass, mean = eta + off, spread = 0;
    for (int k = 0; k < 3; k++) {
        double d = at[k] - mean;
        spread += pieces[k].m2 + d * (2.0 * pieces[k].m1 + d * pieces[k].m0);
    }
    Terms found;
    found.weight = 1.0 / variance;
    found.curvature = found.weight * (1.0 - spread / mass * found.weight);
    found.slope = side * off * found.weight;
    found.value = top + log(mass) - log(wide * ROOT_2PI) - 2.0 * log(size);
    return found;
}

__device__ inline double inverse_rough(double z, double eta, double wide, double edge) {
    double ratio = fmax(fabs(z), LEAST), turned = z < 0 ? -eta : eta;
    double size = fmax(fmax(fabs(turned), edge), LEAST);
    double up = (size / ratio - 1.0) / wide, down = (-size / ratio - 1.0) / wide;
    double share = 0.5 * (1.0 + turned / size);
    up = -0.5 * up * up + log(fmax(share, LEAST));
    down = -0.5 * down * down + log(fmax(1.0 - share, LEAST));
    double top = fmax(up, down);
    return log(size) + top + log1p(exp(fmin(up, down) - top));
}
