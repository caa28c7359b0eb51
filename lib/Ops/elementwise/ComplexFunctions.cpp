// Values follow C99's Annex G and the C++ library, with quotients and products in 80 bits; planes use
// formulas that neither overflow nor cancel unless the result does (W. Kahan, "Branch cuts for complex
// elementary functions", 1987; R. Smith, "Algorithm 116: Complex division", 1962, scaled by the larger part).
#include "elementwise/ComplexFunctions.h"
#include <cmath>
#include <limits>

namespace dtc {
namespace {

using Z = std::complex<double>;
using Wide = std::complex<long double>;
using In = std::span<const Z>;

Z narrow(Wide z) { return {static_cast<double>(z.real()), static_cast<double>(z.imag())}; }
Wide wide(Z z) { return {z.real(), z.imag()}; }

// The schoolbook formula: infinity times zero is NaN.
Wide times(Wide a, Wide b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

// Division by 0 is infinite if the numerator's part is not 0; a finite numerator divided by infinity is 0.
Wide quotient(Wide a, Wide b) {
  const long double scale = std::max(std::fabs(b.real()), std::fabs(b.imag()));
  if (scale == 0) return {a.real() / b.real(), a.imag() / b.real()};
  auto unit = [&](long double v) {
    return !std::isinf(scale) ? v / scale : std::isinf(v) ? std::copysign(1.0L, v) : 0.0L;
  };
  const long double c = unit(b.real()), d = unit(b.imag());
  const long double size = std::isinf(scale) ? scale : b.real() * c + b.imag() * d;
  return {(a.real() * c + a.imag() * d) / size, (a.imag() * c - a.real() * d) / size};
}

Z expm1(Z z) {
  const Wide w = wide(z);
  const long double half = std::sin(w.imag() / 2);
  const long double re = std::expm1(w.real()) * std::cos(w.imag()) - 2 * half * half;
  return narrow({re, w.imag() == 0 ? w.imag() : std::exp(w.real()) * std::sin(w.imag())});
}

Z log1p(Z z) {
  const long double x = z.real(), y = z.imag();
  const long double size = std::max(std::fabs(1 + x), std::fabs(y));
  const long double re =
      size > 0.5L && size < 2 ? std::log1p(x * (2 + x) + y * y) / 2 : std::log(std::hypot(1 + x, y));
  return narrow({re, std::atan2(y, 1 + x)});
}

Z sigmoid(Z z) {
  const Wide e = std::exp(-wide(z));
  if (std::isinf(e.real()) || std::isinf(e.imag())) return 0;
  return narrow(quotient(1, Wide(1) + e));
}

Z sign(Z z) {
  if (z == 0.0) return z;
  const long double size = std::hypot(static_cast<long double>(z.real()), static_cast<long double>(z.imag()));
  return narrow(wide(z) / size);
}

Z rsqrt(Z z) {
  if (std::isinf(z.real()) || std::isinf(z.imag())) return 0;
  return narrow(quotient(1, std::sqrt(wide(z))));
}

// 0^0 is 1, 0 to a power with positive real part is 0; integer powers of magnitude at most 32 are products.
Z power(Z base, Z exponent) {
  if (exponent == 0.0) return 1;
  const double n = exponent.real();
  if (exponent.imag() == 0 && n == std::trunc(n) && std::fabs(n) <= 32) {
    Wide product = 1;
    for (int i = 0; i < static_cast<int>(std::fabs(n)); ++i) product = times(product, wide(base));
    return narrow(n < 0 ? quotient(1, product) : product);
  }
  if (base == 0.0 && n > 0) return 0;
  return narrow(std::exp(times(wide(exponent), std::log(wide(base)))));
}

Z log2(Z z) { return narrow(std::log(wide(z)) / std::log(2.0L)); }

struct ComplexRow {
  const char* name;
  Z (*value)(In);
  const char* planes;
};

// %m, %n: the max and min of |re| and |im|; %t = %n / %m (0 for z = 0); %w = sqrt(1 + t²), so that |z| = m w.
#define SCALED(re, im)                                                                                       \
  "%p = abs " re "\n%q = abs " im "\n%m = max %p, %q\n%n = min %p, %q\n%m0 = eq %m, 0.0\n"                   \
  "%d = select %m0, 1.0, %m\n%t = div %n, %d\n%tt = mul %t, %t\n%w2 = add %tt, 1.0\n%w = sqrt %w2\n"
// %infinite: whether z has an infinite part.
#define INFINITE "%ip = is_inf %p\n%iq = is_inf %q\n%infinite = or %ip, %iq\n"
// %size = |z|, after SCALED and INFINITE.
#define SIZE "%mw = mul %m, %w\n%size = select %infinite, inf, %mw\n"
// %lg = log |z|, after SCALED and INFINITE; %excess = m² - 1, rounded once, for m near 1.
#define LOG_SIZE(excess)                                                                                     \
  excess "%z = fma %n, %n, %excess\n%lz = log1p %z\n%la = mul %lz, 0.5\n"                                    \
         "%lm = log %m\n%lt = log1p %tt\n%lh = mul %lt, 0.5\n%lf = add %lm, %lh\n"                           \
         "%g1 = gt %m, 0.5\n%g2 = lt %m, 2.0\n%near = and %g1, %g2\n%lc = select %near, %la, %lf\n"          \
         "%lg = select %infinite, inf, %lc\n"
#define EXCESS "%me = sub %m, 1.0\n%mf = add %me, %me\n%excess = fma %me, %me, %mf\n"
// The same if m may be |1 + x|: then m² - 1 = x² + 2 x.
#define EXCESS_OF_ONE_MORE                                                                                   \
  "%me = sub %m, 1.0\n%pq = ge %p, %q\n%mx = select %pq, %x_re, %me\n%mf = add %mx, %mx\n"                   \
  "%excess = fma %mx, %mx, %mf\n"
// %sre, %sim = the square root of x, after SCALED; the imaginary part has the sign of x's, including that of
// zero.
#define ROOT                                                                                                 \
  "%pr = div %p, %d\n%ip = is_inf %p\n%pi = select %ip, 1.0, %pr\n%g = add %w, %pi\n%gh = mul %g, 0.5\n"     \
  "%sg = sqrt %gh\n%sm = sqrt %m\n%r = mul %sm, %sg\n%r0 = eq %r, 0.0\n%rd = select %r0, 1.0, %r\n"          \
  "%o2 = div %x_im, %rd\n%o = mul %o2, 0.5\n%right = ge %x_re, 0.0\n%inv = reciprocal %x_im\n"               \
  "%n1 = lt %x_im, 0.0\n%n2 = lt %inv, 0.0\n%down = or %n1, %n2\n%on = neg %o\n%rn = neg %r\n"               \
  "%or = select %down, %on, %o\n%rs = select %down, %rn, %r\n%a = select %right, %r, %or\n"                  \
  "%b = select %right, %o, %rs\n%qi = is_inf %q\n%sre = select %qi, inf, %a\n"                               \
  "%sim = select %qi, %x_im, %b\n"
// %<P>re, %<P>im = the square root of re + i im. As SCALED and ROOT, with names prefixed by P for repeated
// use.
#define ROOT_OF(P, re, im)                                                                                   \
  "%" P "p = abs " re "\n%" P "q = abs " im "\n%" P "m = max %" P "p, %" P "q\n%" P "n = min %" P "p, %" P   \
  "q\n"                                                                                                      \
  "%" P "m0 = eq %" P "m, 0.0\n%" P "d = select %" P "m0, 1.0, %" P "m\n%" P "t = div %" P "n, %" P "d\n"    \
  "%" P "tt = mul %" P "t, %" P "t\n%" P "w2 = add %" P "tt, 1.0\n%" P "w = sqrt %" P "w2\n"                 \
  "%" P "pr = div %" P "p, %" P "d\n%" P "g = add %" P "w, %" P "pr\n%" P "gh = mul %" P "g, 0.5\n"          \
  "%" P "sg = sqrt %" P "gh\n%" P "sm = sqrt %" P "m\n%" P "r = mul %" P "sm, %" P "sg\n"                    \
  "%" P "r0 = eq %" P "r, 0.0\n%" P "rd = select %" P "r0, 1.0, %" P "r\n%" P "o2 = div " im ", %" P "rd\n"  \
  "%" P "o = mul %" P "o2, 0.5\n%" P "right = ge " re ", 0.0\n%" P "inv = reciprocal " im "\n"               \
  "%" P "n1 = lt " im ", 0.0\n%" P "n2 = lt %" P "inv, 0.0\n%" P "down = or %" P "n1, %" P "n2\n"            \
  "%" P "on = neg %" P "o\n%" P "rn = neg %" P "r\n%" P "or = select %" P "down, %" P "on, %" P "o\n"        \
  "%" P "rs = select %" P "down, %" P "rn, %" P "r\n%" P "re = select %" P "right, %" P "r, %" P "or\n"      \
  "%" P "im = select %" P "right, %" P "o, %" P "rs\n"
// a and b: the roots of 1 - z and 1 + z (z = x + i y), for the inverses of sine and cosine.
#define ROOTS_AROUND_ONE(x, y)                                                                               \
  "%lx = sub 1.0, " x "\n%ly = neg " y "\n%ux = add " x ", 1.0\n" ROOT_OF("a", "%lx", "%ly")                 \
      ROOT_OF("b", "%ux", y)
// %as, %ai = the inverse sine of x + i y.
#define ARCSINE(x, y)                                                                                        \
  ROOTS_AROUND_ONE(x, y)                                                                                     \
  "%c1 = mul %are, %bre\n%c2 = mul %aim, %bim\n%c = sub %c1, %c2\n%as = atan2 " x ", %c\n"                   \
  "%e1 = mul %are, %bim\n%e2 = mul %aim, %bre\n%e = sub %e1, %e2\n%ai = asinh %e\n"
// %ah, %ag = the inverse hyperbolic tangent of x + i y: by |x|, so that log1p is far from -1.
#define ARTANH(x, y)                                                                                         \
  "%xn = lt " x ", 0.0\n%xm = neg " x "\n%xa = select %xn, %xm, " x                                          \
  "\n%l = sub 1.0, %xa\n%u = add %xa, 1.0\n"                                                                 \
  "%yy = mul " y ", " y "\n%ll = mul %l, %l\n%den = add %ll, %yy\n%x4 = mul %xa, 4.0\n%qu = div %x4, %den\n" \
  "%lg = log1p %qu\n%lq = mul %lg, 0.25\n%ln = neg %lq\n%ah = select %xn, %ln, %lq\n%lu = mul %l, %u\n"      \
  "%ad = sub %lu, %yy\n%y2 = mul " y ", 2.0\n%at = atan2 %y2, %ad\n%ag = mul %at, 0.5\n"
// %re, %im = (nr + i ni) / (dr + i di), with the divisor scaled by its larger part, s.
#define QUOTIENT(nr, ni, dr, di)                                                                             \
  "%p = abs " dr "\n%q = abs " di "\n%m = max %p, %q\n%m0 = eq %m, 0.0\n%s = select %m0, 1.0, %m\n"          \
  "%si = is_inf %m\n%ip = is_inf %p\n%iq = is_inf %q\n%gc = sign " dr "\n%gd = sign " di "\n"                \
  "%uc = select %ip, %gc, 0.0\n%ud = select %iq, %gd, 0.0\n%vc = div " dr ", %s\n%vd = div " di ", %s\n"     \
  "%c = select %si, %uc, %vc\n%d = select %si, %ud, %vd\n%e1 = mul %c, %c\n%e2 = mul %d, %d\n"               \
  "%e = add %e1, %e2\n%h = select %m0, 1.0, %e\n"                                                            \
  "%r1 = mul " nr ", %c\n%r2 = mul " ni ", %d\n%r3 = add %r1, %r2\n%r4 = div %r3, %h\n%r5 = div %r4, %s\n"   \
  "%i1 = mul " ni ", %c\n%i2 = mul " nr ", %d\n%i3 = sub %i1, %i2\n%i4 = div %i3, %h\n%i5 = div %i4, %s\n"   \
  "%zd = select %m0, " dr ", 1.0\n%zr = div " nr ", %zd\n%zi = div " ni ", %zd\n"                            \
  "%re = select %m0, %zr, %r5\n%im = select %m0, %zi, %i5\n"
// %er, %ei = e^(x + i y), computed in two halves if e^x alone would overflow or underflow.
#define EXPONENTIAL(x, y)                                                                                    \
  "%e = exp " x "\n%c = cos " y "\n%s = sin " y "\n%hx = mul " x ", 0.5\n%h = exp %hx\n%e1 = is_inf %e\n"    \
  "%e0 = eq %e, 0.0\n%far = or %e1, %e0\n%c1 = mul %e, %c\n%c2 = mul %h, %c\n%c3 = mul %c2, %h\n"            \
  "%s1 = mul %e, %s\n%s2 = mul %h, %s\n%s3 = mul %s2, %h\n%cc = select %far, %c3, %c1\n"                     \
  "%ss = select %far, %s3, %s1\n%y0 = eq " y ", 0.0\n%flat = and %far, %y0\n%cf = select %flat, %e, %cc\n"   \
  "%sf = select %flat, " y ", %ss\n%low = eq " x ", -inf\n%er = select %low, 0.0, %cf\n"                     \
  "%ei = select %low, 0.0, %sf\n"
// %re = f g and %im = h k of hyperbolic and circular factors: 0 if the circular one is 0, whatever the other
// is.
#define PRODUCTS(f, g, h, k)                                                                                 \
  "%g0 = eq " g ", 0.0\n%k0 = eq " k ", 0.0\n%fi = is_inf " f "\n%hi = is_inf " h "\n"                       \
  "%gz = and %g0, %fi\n%kz = and %k0, %hi\n%fg = mul " f ", " g "\n%hk = mul " h ", " k "\n"                 \
  "%re = select %gz, " g ", %fg\n%im = select %kz, " k ", %hk\n"
// %th, %ti = tanh(x + i y) = (sinh x cosh x + i sin y cos y) / (sinh² x + cos² y); asymptotically only
// e^-2|x| remains.
#define TANH(x, y)                                                                                           \
  "%s = sinh " x "\n%c = cosh " x "\n%y1 = sin " y "\n%y2 = cos " y "\n%s2 = mul %s, %s\n"                   \
  "%c2 = mul %y2, %y2\n%den = add %s2, %c2\n%sc = mul %s, %c\n%t1 = div %sc, %den\n%yy = mul %y1, %y2\n"     \
  "%i1 = div %yy, %den\n%p = abs " x "\n%far = gt %p, 22.0\n%end = is_inf %p\n%g = sign " x "\n"             \
  "%k = mul %p, -2.0\n%e = exp %k\n%i4 = mul %yy, 4.0\n%i5 = mul %i4, %e\n%i6 = select %end, 0.0, %i5\n"     \
  "%th = select %far, %g, %t1\n%ti = select %far, %i6, %i1\n"

const ComplexRow kComplexRows[] = {
    {"neg", [](In z) { return -z[0]; }, "%re = neg %x_re\n%im = neg %x_im\nyield %re, %im"},
    {"abs", [](In z) { return Z(std::abs(z[0])); }, SCALED("%x_re", "%x_im") INFINITE SIZE "yield %size"},
    {"sign", [](In z) { return sign(z[0]); },
     SCALED("%x_re", "%x_im") "%u = div %x_re, %d\n%v = div %x_im, %d\n%re = div %u, %w\n%im = div %v, %w\n"
                              "yield %re, %im"},
    {"exp", [](In z) { return std::exp(z[0]); }, EXPONENTIAL("%x_re", "%x_im") "yield %er, %ei"},
    {"expm1", [](In z) { return expm1(z[0]); },
     "%e = expm1 %x_re\n%c = cos %x_im\n%ec = mul %e, %c\n%hy = mul %x_im, 0.5\n%h = sin %hy\n"
     "%h2 = mul %h, %h\n%h3 = mul %h2, 2.0\n%re = sub %ec, %h3\n%s = sin %x_im\n%f = exp %x_re\n"
     "%fs = mul %f, %s\n%y0 = eq %x_im, 0.0\n%fi = is_inf %f\n%flat = and %y0, %fi\n"
     "%im = select %flat, %x_im, %fs\nyield %re, %im"},
    {"log", [](In z) { return std::log(z[0]); },
     SCALED("%x_re", "%x_im") INFINITE LOG_SIZE(EXCESS) "%im = atan2 %x_im, %x_re\nyield %lg, %im"},
    {"log2", [](In z) { return log2(z[0]); },
     SCALED("%x_re", "%x_im") INFINITE LOG_SIZE(EXCESS) "%at = atan2 %x_im, %x_re\n"
                                                        "%re = mul %lg, 1.4426950408889634\n"
                                                        "%im = mul %at, 1.4426950408889634\nyield %re, %im"},
    {"log1p", [](In z) { return log1p(z[0]); },
     "%u = add %x_re, 1.0\n" SCALED("%u", "%x_im")
         INFINITE LOG_SIZE(EXCESS_OF_ONE_MORE) "%im = atan2 %x_im, %u\nyield %lg, %im"},
    {"sqrt", [](In z) { return std::sqrt(z[0]); }, SCALED("%x_re", "%x_im") ROOT "yield %sre, %sim"},
    {"rsqrt", [](In z) { return rsqrt(z[0]); },
     SCALED("%x_re", "%x_im") ROOT
     "%u = div %sre, %d\n%v = div %sim, %d\n%uw = div %u, %w\n%vw = div %v, %w\n%vn = neg %vw\n"
     "%mi = is_inf %m\n%ur = select %mi, 0.0, %uw\n%vr = select %mi, 0.0, %vn\n%re = select %m0, inf, %ur\n"
     "%im = select %m0, nan, %vr\nyield %re, %im"},
    {"reciprocal", [](In z) { return narrow(quotient(1, wide(z[0]))); },
     QUOTIENT("1.0", "0.0", "%x_re", "%x_im") "yield %re, %im"},
    {"square", [](In z) { return narrow(times(wide(z[0]), wide(z[0]))); },
     "%s = add %x_re, %x_im\n%d = sub %x_re, %x_im\n%re = mul %s, %d\n%h = mul %x_re, %x_im\n%im = add %h, "
     "%h\n"
     "yield %re, %im"},
    {"sin", [](In z) { return std::sin(z[0]); },
     "%s = sin %x_re\n%c = cos %x_re\n%sh = sinh %x_im\n%ch = cosh %x_im\n" PRODUCTS("%ch", "%s", "%sh",
                                                                                     "%c") "yield %re, %im"},
    {"cos", [](In z) { return std::cos(z[0]); },
     "%s = sin %x_re\n%c = cos %x_re\n%sh = sinh %x_im\n%ch = cosh %x_im\n%sn = neg %sh\n" PRODUCTS(
         "%ch", "%c", "%sn", "%s") "yield %re, %im"},
    {"tan", [](In z) { return std::tan(z[0]); }, TANH("%x_im", "%x_re") "yield %ti, %th"},
    {"sinh", [](In z) { return std::sinh(z[0]); },
     "%s = sin %x_im\n%c = cos %x_im\n%sh = sinh %x_re\n%ch = cosh %x_re\n" PRODUCTS("%sh", "%c", "%ch",
                                                                                     "%s") "yield %re, %im"},
    {"cosh", [](In z) { return std::cosh(z[0]); },
     "%s = sin %x_im\n%c = cos %x_im\n%sh = sinh %x_re\n%ch = cosh %x_re\n" PRODUCTS("%ch", "%c", "%sh",
                                                                                     "%s") "yield %re, %im"},
    {"tanh", [](In z) { return std::tanh(z[0]); }, TANH("%x_re", "%x_im") "yield %th, %ti"},
    {"asin", [](In z) { return std::asin(z[0]); }, ARCSINE("%x_re", "%x_im") "yield %as, %ai"},
    {"acos", [](In z) { return std::acos(z[0]); },
     ROOTS_AROUND_ONE("%x_re",
                      "%x_im") "%h = atan2 %are, %bre\n%re = mul %h, 2.0\n%e1 = mul %bre, %aim\n"
                               "%e2 = mul %bim, %are\n%e = sub %e1, %e2\n%im = asinh %e\nyield %re, %im"},
    {"atan", [](In z) { return std::atan(z[0]); },
     "%my = neg %x_im\n" ARTANH("%my", "%x_re") "%im = neg %ah\nyield %ag, %im"},
    {"asinh", [](In z) { return std::asinh(z[0]); },
     "%my = neg %x_im\n" ARCSINE("%my", "%x_re") "%im = neg %as\nyield %ai, %im"},
    {"acosh", [](In z) { return std::acosh(z[0]); },
     "%lx = sub %x_re, 1.0\n%ux = add %x_re, 1.0\n" ROOT_OF("a", "%lx", "%x_im")
         ROOT_OF("b", "%ux", "%x_im") "%e1 = mul %are, %bre\n%e2 = mul %aim, %bim\n%e = add %e1, %e2\n%re = "
                                      "asinh %e\n%h = atan2 %aim, %bre\n"
                                      "%im = mul %h, 2.0\nyield %re, %im"},
    {"atanh", [](In z) { return std::atanh(z[0]); }, ARTANH("%x_re", "%x_im") "yield %ah, %ag"},
    {"cbrt", [](In z) { return z[0] == 0.0 ? z[0] : narrow(std::exp(std::log(wide(z[0])) / 3.0L)); },
     SCALED("%x_re", "%x_im") INFINITE SIZE "%at = atan2 %x_im, %x_re\n%third = mul %at, 0.3333333333333333\n"
                                            "%k = cbrt %size\n%c = cos %third\n%s = sin %third\n"
                                            "%re = mul %k, %c\n%im = mul %k, %s\nyield %re, %im"},
    // With u = e^-|x| and g = 2 cos²(y/2) = 1 + cos y: |1 + e^∓z|² = (1 - u)² + 2 u g.
    {"sigmoid", [](In z) { return sigmoid(z[0]); },
     "%right = ge %x_re, 0.0\n%ng = neg %x_re\n%k = select %right, %ng, %x_re\n%u = exp %k\n%um = expm1 %k\n"
     "%hy = mul %x_im, 0.5\n%h = cos %hy\n%h2 = mul %h, %h\n%g = mul %h2, 2.0\n%u2 = mul %um, %um\n"
     "%ug = mul %u, %g\n%ug2 = mul %ug, 2.0\n%den = add %u2, %ug2\n%a = sub %ug, %um\n%b1 = add %um, %g\n"
     "%b = mul %u, %b1\n%num = select %right, %a, %b\n%s = sin %x_im\n%us = mul %u, %s\n%re = div %num, "
     "%den\n"
     "%im = div %us, %den\nyield %re, %im"},
    {"add", [](In z) { return z[0] + z[1]; },
     "%re = add %a_re, %b_re\n%im = add %a_im, %b_im\nyield %re, %im"},
    {"sub", [](In z) { return z[0] - z[1]; },
     "%re = sub %a_re, %b_re\n%im = sub %a_im, %b_im\nyield %re, %im"},
    {"mul", [](In z) { return narrow(times(wide(z[0]), wide(z[1]))); },
     "%rr = mul %a_re, %b_re\n%ii = mul %a_im, %b_im\n%ri = mul %a_re, %b_im\n%ir = mul %a_im, %b_re\n"
     "%re = sub %rr, %ii\n%im = add %ri, %ir\nyield %re, %im"},
    {"div", [](In z) { return narrow(quotient(wide(z[0]), wide(z[1]))); },
     QUOTIENT("%a_re", "%a_im", "%b_re", "%b_im") "yield %re, %im"},
    // |a|^Re b e^(-Im b arg a), rotated by Re b arg a + Im b log |a|.
    {"pow", [](In z) { return power(z[0], z[1]); },
     SCALED("%a_re", "%a_im") INFINITE SIZE LOG_SIZE(
         EXCESS) "%at = atan2 %a_im, %a_re\n%o1 = pow %size, %b_re\n%o2 = mul %b_im, %at\n%o3 = neg %o2\n%o4 "
                 "= exp %o3\n"
                 "%o = mul %o1, %o4\n%f1 = mul %b_re, %at\n%f2 = mul %b_im, %lg\n%f = add %f1, %f2\n%c = cos "
                 "%f\n%s = sin %f\n"
                 "%oc = mul %o, %c\n%os = mul %o, %s\n%up = gt %b_re, 0.0\n%gone = and %m0, %up\n%br = eq "
                 "%b_re, 0.0\n"
                 "%bi = eq %b_im, 0.0\n%one = and %br, %bi\n%r1 = select %gone, 0.0, %oc\n%i1 = select "
                 "%gone, 0.0, %os\n"
                 "%re = select %one, 1.0, %r1\n%im = select %one, 0.0, %i1\nyield %re, %im"},
    {"eq", [](In z) { return Z(z[0] == z[1]); },
     "%re = eq %a_re, %b_re\n%im = eq %a_im, %b_im\n%y = and %re, %im\nyield %y"},
    {"ne", [](In z) { return Z(z[0] != z[1]); },
     "%re = ne %a_re, %b_re\n%im = ne %a_im, %b_im\n%y = or %re, %im\nyield %y"},
    {"real", [](In z) { return Z(z[0].real()); }, "yield %z_re"},
    {"imag", [](In z) { return Z(z[0].imag()); }, "yield %z_im"},
    {"conj", [](In z) { return std::conj(z[0]); }, "%im = neg %z_im\nyield %z_re, %im"},
    {"complex", [](In z) { return Z(z[0].real(), z[1].real()); }, "yield %re, %im"},
};

#undef SCALED
#undef INFINITE
#undef SIZE
#undef LOG_SIZE
#undef EXCESS
#undef EXCESS_OF_ONE_MORE
#undef ROOT
#undef QUOTIENT
#undef ROOT_OF
#undef ROOTS_AROUND_ONE
#undef ARCSINE
#undef ARTANH
#undef EXPONENTIAL
#undef PRODUCTS
#undef TANH

} // namespace

void addComplexForm(OpRecord& r) {
  for (const ComplexRow& row : kComplexRows) {
    if (std::string_view(row.name) != r.name) continue;
    r.complex = OpRecord::ComplexForm::Function;
    r.complexValue = row.value;
    r.complexText = row.planes;
  }
}

} // namespace dtc
