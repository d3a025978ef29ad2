package app

import (
	"reflect"
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
		name, value, _ := strings.Cut(variable, "=")
		_, known := variables[name]
		ours := strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST")
		if ours && !known && !variables[strings.TrimSuffix(name, "_FILE")] && !isServiceLink(name, value) {
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
