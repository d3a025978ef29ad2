package web

import (
	"cmp"
	"encoding/json"
	"io/fs"
	"net/url"
	"strings"
)

// Shop is how the pages present the shop. Each field may be empty.
type Shop struct {
	Name string `json:"name,omitempty"`
	// URL of a picture.
	Logo string `json:"logo,omitempty"`
	// As #rrggbb.
	Color string `json:"color,omitempty"`
	// URLs.
	Imprint string `json:"imprint,omitempty"`
	Privacy string `json:"privacy,omitempty"`
}

// Title returns the name of the pages.
func (s Shop) Title() string { return cmp.Or(s.Name, "Seckill") }

// Data returns what the modules of the pages need, as JSON; empty if nothing is set.
func (s Shop) Data() string {
	if s == (Shop{}) {
		return ""
	}
	// Texts always have a JSON form.
	text, _ := json.Marshal(s)
	return string(text)
}

func (s Shop) allow(policy string) string {
	logo, err := url.Parse(s.Logo)
	if err != nil || logo.Host == "" {
		return policy
	}
	const images = "img-src 'self' data:"
	return strings.Replace(policy, images, images+" "+logo.Scheme+"://"+logo.Host, 1)
}

func (s Shop) manifest(root fs.FS) (*file, error) {
	const name = "manifest.webmanifest"
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}

	manifest := map[string]any{}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, err
	}

	manifest["name"] = s.Title()
	manifest["short_name"] = s.Title()
	if s.Color != "" {
		manifest["theme_color"] = s.Color
	}

	if text, err = json.Marshal(manifest); err != nil {
		return nil, err
	}

	return newFile(name, text, defaultPolicy), nil
}
