package providers

import "testing"

func TestSameName(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"", "", true}, {"prod-approve-10", "Prod-Approve-10", true}, {"AZaz", "azAZ", true},
		{"prod", "prod ", false}, {"prod", "prob", false}, {"@[", "`{", false}, // beside A and Z
		{"staging", "\u017ftaging", false}, {"\u017f", "S", false}, {"k", "\u212a", false}, // strings.EqualFold takes them
		{"\u00e9", "\u00c9", false}, {"\xff", "\xfe", false}, {"\xff", "\ufffd", false},
	} {
		if SameName(tc.a, tc.b) != tc.same || SameName(tc.b, tc.a) != tc.same {
			t.Errorf("%q and %q: expected %v", tc.a, tc.b, tc.same)
		}
	}
}
