package known

import "encoding/hex"

// hexDigit maps a lower-case hexadecimal digit to its value, and any other byte to 0xff.
var hexDigit = func() (digit [256]byte) {
	for c := range digit {
		digit[c] = 0xff
	}
	for i, c := range []byte("0123456789abcdef") {
		digit[c] = byte(i)
	}
	return digit
}()

// packUUID packs only the canonical lower-case form, so that formatUUID returns the same text.
func packUUID(s string, out *[16]byte) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	wrong := byte(0)
	for i, place := range [16]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34} {
		high, low := hexDigit[s[place]], hexDigit[s[place+1]]
		wrong |= high | low
		out[i] = high<<4 | low
	}
	return wrong < 16
}

func formatUUID(u [16]byte) string {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}
