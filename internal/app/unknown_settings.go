package app

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// Variables returns the environment variables of the settings, each with whether a file may have its value.
func Variables() map[string]bool {
	all := map[string]bool{}
	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		tag := fields.Field(i).Tag
		_, file := tag.Lookup("file")
		all[tag.Get("env")] = file
	}
	return all
}

// unknownSettings returns the variables of an environment that look like settings but are none, such as misspelt ones.
// Variables of tests, and those that Kubernetes sets for a service called seckill, are left out.
func unknownSettings(environ []string) []string {
	variables := Variables()
	var unknown []string
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		_, known := variables[name]
		upper := strings.ToUpper(name)
		ours := strings.HasPrefix(upper, "SECKILL_") && !strings.HasPrefix(upper, "SECKILL_TEST")
		if ours && !known && !variables[strings.TrimSuffix(name, "_FILE")] && !serviceLink.MatchString(variable) {
			unknown = append(unknown, name)
		}
	}

	slices.Sort(unknown)
	return unknown
}

// serviceLink matches a variable that Kubernetes sets for the address of a service.
// https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
var serviceLink = regexp.MustCompile(`_SERVICE_HOST=|_SERVICE_PORT(_[A-Z0-9_]+)?=[0-9]+$|_PORT(_[0-9]+_(TCP|UDP|SCTP))?=(tcp|udp|sctp)://|_PORT_[0-9]+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)=`)
