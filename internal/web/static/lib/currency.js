// Decimals of the currencies of ISO 4217 that do not have two, as in internal/domain/currency.go. Intl cannot tell: its
// decimals are those of CLDR, which change with the browser's release.
const PLACES = {
  BHD: 3, BIF: 0, CLF: 4, CLP: 0, DJF: 0, GNF: 0, IQD: 3, ISK: 0, JOD: 3, JPY: 0, KMF: 0, KRW: 0, KWD: 3, LYD: 3, OMR: 3, PYG: 0,
  RWF: 0, TND: 3, UGX: 0, UYI: 0, UYW: 4, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0,
};

// digits returns the number of decimals of a currency.
export const digits = (currency) => PLACES[currency] ?? 2;
