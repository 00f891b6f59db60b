package pages

// List is a cursor over n lines that are shown a page at a time: a page that
// turns once in fifteen keys costs a slow line less than one that scrolls at
// every key.
type List struct {
	Cur int
}

// Move moves the cursor; rows is how many lines are on a page.
func (l *List) Move(a Action, n, rows int) bool {
	rows = max(rows, 1)
	switch a {
	case Up:
		l.Cur--
	case Down:
		l.Cur++
	case PageUp:
		l.Cur -= rows
	case PageDown:
		l.Cur += rows
	case First:
		l.Cur = 0
	case Last:
		l.Cur = n - 1
	default:
		return false
	}
	l.Clamp(n)
	return true
}

// Clamp keeps the cursor inside n lines.
func (l *List) Clamp(n int) { l.Cur = max(min(l.Cur, n-1), 0) }

// Window is the page the cursor is on: lines from start up to end.
func (l *List) Window(n, rows int) (start, end int) {
	rows = max(rows, 1)
	start = l.Cur / rows * rows
	return start, min(start+rows, n)
}

// Scroll is a window over lines that moves without a cursor.
type Scroll struct {
	Top int
}

// Move moves the window; rows is its height.
func (s *Scroll) Move(a Action, n, rows int) bool {
	l := List{Cur: s.Top}
	step := max(rows-1, 1)
	switch a {
	case PageUp, PageDown:
		l.Move(a, n, step)
	case Last:
		l.Cur = n
	default:
		if !l.Move(a, n, rows) {
			return false
		}
	}
	s.Top = l.Cur
	s.Clamp(n, rows)
	return true
}

// Clamp keeps the window inside n lines.
func (s *Scroll) Clamp(n, rows int) { s.Top = max(min(s.Top, n-rows), 0) }
