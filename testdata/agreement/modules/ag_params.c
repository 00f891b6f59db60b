// Has parameters of several types.
#include <linux/module.h>

static int count = 1;
module_param(count, int, 0444);
MODULE_PARM_DESC(count, "a number");
static bool loud;
module_param(loud, bool, 0444);
static char *text = "none";
module_param(text, charp, 0444);
static ushort list[3];
module_param_array(list, ushort, NULL, 0444);

MODULE_DESCRIPTION("has parameters");
MODULE_LICENSE("GPL");
