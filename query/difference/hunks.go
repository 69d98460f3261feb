package difference

// mostPairs is how many pairs of items one comparison of two objects may compare. It bounds time and memory.
const mostPairs = 4 << 20

// budget is how many pairs may still be compared.
type budget int

// stretch is a part of a sequence, without its end.
type stretch struct{ from, to int }

func (s stretch) len() int { return s.to - s.from }

// hunk is what differs between two sequences at one place.
type hunk struct{ old, now stretch }

// hunks returns what differs between two sequences, by the longest common subsequence after equal starts and ends are removed. If
// that takes more pairs than the budget has, it returns one hunk and false.
func (left *budget) hunks(old, now []string) (all []hunk, compared bool) {
	start, end := 0, 0
	for start < min(len(old), len(now)) && old[start] == now[start] {
		start++
	}
	for end < min(len(old), len(now))-start && old[len(old)-1-end] == now[len(now)-1-end] {
		end++
	}
	a, b := old[start:len(old)-end], now[start:len(now)-end]
	if len(a) > 0 && len(b) > int(*left)/len(a) {
		return []hunk{{stretch{start, start + len(a)}, stretch{start, start + len(b)}}}, false
	}
	*left -= budget(len(a) * len(b))
	common, open := commonOf(a, b), false
	for i, j := 0, 0; i < len(a) || j < len(b); {
		if i < len(a) && j < len(b) && a[i] == b[j] {
			i, j, open = i+1, j+1, false
			continue
		}
		if !open {
			all, open = append(all, hunk{stretch{from: start + i}, stretch{from: start + j}}), true
		}
		if j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1] {
			i++
		} else {
			j++
		}
		all[len(all)-1].old.to, all[len(all)-1].now.to = start+i, start+j
	}
	return all, true
}

// commonOf returns the length of the longest common subsequence of a[i:] and b[j:], for each i and j.
func commonOf(a, b []string) [][]int32 {
	common := make([][]int32, len(a)+1)
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if common[i][j] = max(common[i+1][j], common[i][j+1]); a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	return common
}
