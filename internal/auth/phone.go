package auth

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/nyaruka/phonenumbers"

	"seckill/internal/domain"
)

// maxPhoneLength bounds the input in bytes. It leaves room for separators, marks, and full-width digits of three bytes.
const maxPhoneLength = 128

// writtenPhone matches a number without letters, after [domain.Typed]: the library would dial 1-800-FLOWERS, and cut extensions
// off. Links to numbers begin with tel: (RFC 3966).
var writtenPhone = regexp.MustCompile(`^(?i:tel:)?(\(?\+?[0-9()./]+)$`)

// mainlandMobile matches the significant digits of mainland Chinese mobile numbers. Carriers open prefixes before the
// library knows them.
var mainlandMobile = regexp.MustCompile(`^1[3-9][0-9]{9}$`)

// Phones parses mobile numbers of some countries, in the ways in which people write them. The canonical form of a number has 11 digits in mainland China, and
// is that of E.164 (+4915112345678) elsewhere. Phones are immutable.
type Phones struct {
	// ISO 3166-1 codes.
	countries []string
	// Says which numbers are accepted.
	accepted string
}

// NewPhones returns the numbers of the countries, which are ISO 3166-1 codes such as "CN". A national number that would be a
// mobile number in several of them belongs to the first. It returns an error if a code is unknown or if there is none.
func NewPhones(countries []string) (*Phones, error) {
	n := &Phones{}
	for _, c := range countries {
		c = strings.ToUpper(strings.TrimSpace(c))
		if phonenumbers.GetCountryCodeForRegion(c) == 0 {
			return nil, fmt.Errorf("%q is not an ISO country code such as CN or DE", c)
		}

		if !slices.Contains(n.countries, c) {
			n.countries = append(n.countries, c)
		}
	}

	if len(n.countries) == 0 {
		return nil, errors.New("no country")
	}

	// A country of the library has an example for each kind of number.
	example := phonenumbers.GetExampleNumberForType(n.countries[0], phonenumbers.MOBILE)
	n.accepted = fmt.Sprintf("must be a mobile number of %s, such as %s or %s", strings.Join(n.countries, ", "),
		phonenumbers.Format(example, phonenumbers.NATIONAL), phonenumbers.Format(example, phonenumbers.INTERNATIONAL))

	return n, nil
}

// Parse returns the canonical form of a mobile number and its country. Landlines, premium-rate and satellite numbers and
// those of other countries are refused with a *domain.InvalidError, which says what is accepted.
func (n *Phones) Parse(text string) (number, country string, err error) {
	parsed, country := n.read(text)
	if country == "" {
		return "", "", domain.Invalid("phone", "%s", n.accepted)
	}
	return canonicalPhone(parsed), country, nil
}

// Canonical returns the canonical form of any number, to find the account of a country that is no longer accepted.
// Error: *domain.InvalidError.
func (n *Phones) Canonical(text string) (string, error) {
	parsed, _ := n.read(text)
	if parsed == nil {
		return "", domain.Invalid("phone", "%s", n.accepted)
	}
	return canonicalPhone(parsed), nil
}

// read parses text as a number of each country until it is an accepted number. It returns that number and its country,
// otherwise the first interpretation of a possible length, or nil, and no country.
func (n *Phones) read(text string) (*phonenumbers.PhoneNumber, string) {
	if len(text) > maxPhoneLength {
		return nil, ""
	}

	// The address of a link that a browser copies has its spaces and its plus sign escaped.
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}

	// It is copied with what stands around it in a message or a spreadsheet: quotes, a full stop, the sign of a telephone.
	match := writtenPhone.FindStringSubmatch(strings.TrimFunc(domain.Typed(text), func(r rune) bool {
		return r != '+' && r != '(' && unicode.In(r, unicode.P, unicode.S)
	}))
	if match == nil {
		return nil, ""
	}

	var number *phonenumbers.PhoneNumber
	for _, region := range n.countries {
		parsed, err := phonenumbers.Parse(match[1], region)
		if err != nil {
			continue
		}
		dropFormerPrefix(parsed)

		switch phonenumbers.GetNumberType(parsed) {
		case phonenumbers.MOBILE, phonenumbers.FIXED_LINE_OR_MOBILE:
			// The countries of +1 do not distinguish them.
			if country := phonenumbers.GetRegionCodeForNumber(parsed); slices.Contains(n.countries, country) {
				return parsed, country
			}
		case phonenumbers.UNKNOWN:
			if parsed.GetCountryCode() == 86 && slices.Contains(n.countries, "CN") && mainlandMobile.MatchString(phonenumbers.GetNationalSignificantNumber(parsed)) {
				return parsed, "CN"
			}
		}

		if number == nil && phonenumbers.IsPossibleNumber(parsed) {
			number = parsed
		}
	}

	return number, ""
}

// dropFormerPrefix removes the 1 that was dialled before Mexico's mobile numbers until 2019. Address books and messengers still
// have it.
func dropFormerPrefix(number *phonenumbers.PhoneNumber) {
	const mexico, prefix = 52, 1e10
	if n := number.GetNationalNumber(); number.GetCountryCode() == mexico && n/prefix == 1 {
		n -= prefix
		number.NationalNumber = &n
	}
}

func canonicalPhone(number *phonenumbers.PhoneNumber) string {
	return strings.TrimPrefix(phonenumbers.Format(number, phonenumbers.E164), "+86")
}
