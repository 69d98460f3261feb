package rawjson

// Token is a value in a JSON text, or the name of a member.
type Token struct {
	Start, End int32 // its bytes in the text
	Next       int32 // the token after it and all that it holds
}

// Scan appends the tokens of a JSON text to dst, in their order. A member has two tokens, its name and then its value. An object
// or array comes before its contents. So a reader skips a value in one step, however large it is. The text must have been checked
// before: what Scan finds in malformed text is undefined.
func Scan(dst []Token, text []byte) []Token {
	open := int32(-1) // the innermost object or array that has not ended, whose Next is the enclosing one
	for i := 0; i < len(text); {
		start, next := i, int32(len(dst)+1)
		switch c := text[i]; {
		case c == '"':
			i = stringEnd(text, i)
		case nests[c] > 0:
			i++
			open, next = int32(len(dst)), open
		case nests[c] < 0:
			i++
			if open >= 0 {
				t := &dst[open]
				open, t.End, t.Next = t.Next, int32(i), int32(len(dst))
			}
			continue
		case c == ':' || ends[c]:
			i++
			continue
		default:
			for i < len(text) && !ends[text[i]] {
				i++
			}
		}
		dst = append(dst, Token{int32(start), int32(i), next})
	}
	for open >= 0 {
		t := &dst[open]
		open, t.End, t.Next = t.Next, int32(len(text)), int32(len(dst))
	}
	return dst
}
