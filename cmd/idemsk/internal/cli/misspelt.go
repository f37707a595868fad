package cli

import "github.com/idemsk/idemsk/app"

// known are the variables that verbs read, and those of functions and processes whose names are similar.
var known = []string{"IDEMSK_KAFKA_PASSWORD", "IDEMSK_KAFKA_USERNAME", "IDEMSK_NAMESPACE", "IDEMSK_STORE_URL",
	"IDEMSK_TABLE", "IDEMSK_UI_PASSWORD", "IDEMSK_STORE", "IDEMSK_STORE_DOWN"}

// warnOfMisspelt prints a warning for each variable whose name is similar to a known one. The shell of an
// operator may have any others: those of functions and processes, too.
func warnOfMisspelt(s Streams) {
	vars := app.Environment()
	for _, name := range known {
		vars.String(name, "")
	}
	for _, u := range vars.Unread() {
		if u.Meant != "" {
			s.Sayf("WARNING: %s\n", u.Warning())
		}
	}
}
