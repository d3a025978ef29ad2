package domain

import (
	"fmt"
	"strconv"
	"strings"
)

// currencies are the codes of ISO 4217 by their number of decimals: list one of 1 January 2026, without metals and units of
// account, which have none. XTS (for tests) and XXX (no currency) are for drafts. Libraries take the decimals from CLDR, which
// for a dozen currencies says 0 because small coins are rare; banks and payment providers count in the units of ISO.
// lib/currency.js has the same decimals for the pages.
var currencies = byCode(map[int]string{
	0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
	2: "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP " +
		"COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR " +
		"JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN " +
		"NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL " +
		"THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG XTS XXX YER ZAR ZMW ZWG",
	3: "BHD IQD JOD KWD LYD OMR TND",
	4: "CLF UYW",
})

func byCode(lists map[int]string) map[string]int {
	decimals := map[string]int{}
	for places, codes := range lists {
		for code := range strings.FieldsSeq(codes) {
			decimals[code] = places
		}
	}
	return decimals
}

// IsCurrency reports whether code is a code of ISO 4217 that is in use, in capitals.
func IsCurrency(code string) bool {
	_, ok := currencies[code]
	return ok
}

// Decimals returns the number of decimals of a currency, which is 2 for an unknown one.
func Decimals(code string) int {
	if places, ok := currencies[code]; ok {
		return places
	}
	return 2
}

// FormatAmount returns an amount, given in the smallest unit of its currency, in whole units, such as 80.00 for 8000.
func FormatAmount(amount int64, code string) string {
	places := Decimals(code)
	if places == 0 {
		return strconv.FormatInt(amount, 10)
	}

	// With at least one digit before the point.
	digits := fmt.Sprintf("%0*d", places+1, amount)
	whole := len(digits) - places
	return digits[:whole] + "." + digits[whole:]
}
