package app

import (
	"reflect"
	"slices"
	"strings"
)

// unknownSettings returns the variables of an environment that look like settings but are none, such as misspelt ones.
// Variables of tests, and those that Kubernetes sets for a service called seckill, are left out.
func unknownSettings(environ []string) []string {
	known := map[string]bool{}
	fields := reflect.TypeFor[Config]()
	for i := range fields.NumField() {
		tag := fields.Field(i).Tag
		name := tag.Get("env")
		known[name] = true
		if _, ok := tag.Lookup("file"); ok {
			known[name+"_FILE"] = true
		}
	}

	var unknown []string
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		ours := strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST")
		if ours && !known[name] && !isServiceLink(name, value) {
			unknown = append(unknown, name)
		}
	}

	slices.Sort(unknown)
	return unknown
}

// isServiceLink reports whether a variable is one that Kubernetes sets for the address of a service.
// https://kubernetes.io/docs/tutorials/services/connect-applications-service/#environment-variables
func isServiceLink(name, value string) bool {
	return strings.Contains(name, "_SERVICE_") || strings.Contains(name, "_PORT_") || strings.Contains(value, "://")
}
