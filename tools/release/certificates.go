package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificatesModule has Mozilla's root certificates; go.mod pins it, where a distribution's package would change from day to day.
const certificatesModule = "golang.org/x/crypto/x509roots/fallback"

// certificates is the image's ca-certificates.crt. A root that Mozilla trusts only up to a date is left out, since the
// file can't say so.
func certificates() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a Buffer takes everything
		}
	}
	return b.Bytes()
}
