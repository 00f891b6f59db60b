package host

// What the programs below testdata import is named here too, because the Go tool
// does not look into testdata when it tidies go.mod.
import (
	_ "github.com/rancher/yip/pkg/console"
	_ "github.com/rancher/yip/pkg/executor"
	_ "github.com/rancher/yip/pkg/schema"
	_ "github.com/sirupsen/logrus"
	_ "github.com/twpayne/go-vfs/v4"
)
