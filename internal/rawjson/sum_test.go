package rawjson

import "testing"

func TestSame(t *testing.T) {
	const object = `{"a":{"b":1,"c":[1,{"d":"x","e":null}]},"f":""}`
	for other, want := range map[string]bool{
		object: true,
		`{"f":"","a":{"c":[1,{"e":null,"d":"x"}],"b":1}}`: true,
		`{"f":"","a":{"c":[{"e":null,"d":"x"},1],"b":1}}`: false,
		`{"f":"","a":{"c":[1,{"e":null,"d":"y"}],"b":1}}`: false,
		`{"a":"","f":{"c":[1,{"e":null,"d":"x"}],"b":1}}`: false,
		`{"f":"","a":{"b":1}}`:                            false,
		`{"a":{"b":1,"c":[1,{"c":"x","f":null}]},"f":""}`: false, // its bytes have the same total
	} {
		if Same([]byte(object), []byte(other)) != want {
			t.Errorf("%s and %s: want %t", object, other, want)
		}
	}
}
