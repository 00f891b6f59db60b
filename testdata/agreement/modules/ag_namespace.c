// Imports from a namespace.
#include <linux/module.h>

int ag_hidden(void);

static int __init start(void) { return ag_hidden() == 43 ? 0 : -EINVAL; }
static void __exit end(void) { }
module_init(start);
module_exit(end);

MODULE_DESCRIPTION("imports from the namespace AGREEMENT");
MODULE_IMPORT_NS(AGREEMENT);
MODULE_LICENSE("GPL");
