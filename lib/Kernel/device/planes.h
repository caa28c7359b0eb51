// Device header, complex numbers of generated CPU kernels: N of them are two vectors, of real and imaginary
// parts.

template <class P> struct dtc_complex_of;
template <> struct dtc_complex_of<f32> {
  typedef c64 type;
};
template <> struct dtc_complex_of<f64> {
  typedef c128 type;
};
template <class P, int N> struct dtc_planes {
  typedef typename dtc_complex_of<P>::type Element;
  Vec<P, N> re, im;
  dtc_planes() = default;
  DTC_MEMBER dtc_planes(Vec<P, N> re, Vec<P, N> im) : re(re), im(im) {}
  DTC_MEMBER explicit dtc_planes(Element z) : re((Vec<P, N>)z.re), im((Vec<P, N>)z.im) {}
  DTC_MEMBER explicit dtc_planes(int zero) : re((Vec<P, N>)(P)zero), im((Vec<P, N>)(P)zero) {}
};
template <class P, int N> DTC_FN Vec<P, N> dtc_real(dtc_planes<P, N> z) { return z.re; }
template <class P, int N> DTC_FN Vec<P, N> dtc_imag(dtc_planes<P, N> z) { return z.im; }
template <class P, int N> DTC_FN dtc_planes<P, N> dtc_complex(Vec<P, N> re, Vec<P, N> im) {
  return dtc_planes<P, N>(re, im);
}
template <class P, int N>
DTC_FN dtc_planes<P, N> dtc_select(Vec<bool, N> c, dtc_planes<P, N> a, dtc_planes<P, N> b) {
  return dtc_planes<P, N>(dtc_select(c, a.re, b.re), dtc_select(c, a.im, b.im));
}

// The first n of N elements from p on; the other lanes are 0.
template <int N, class Z> DTC_FN dtc_planes<typename Z::part, N> dtc_load_planes(const Z* p, i64 n) {
  dtc_planes<typename Z::part, N> x(0);
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < n) x.re[i] = p[i].re, x.im[i] = p[i].im;
  return x;
}
template <int N, class Z> DTC_FN void dtc_store_planes(Z* p, dtc_planes<typename Z::part, N> x, i64 n) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < n) p[i] = Z(x.re[i], x.im[i]);
}
