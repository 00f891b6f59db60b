// Depends on ag_export.
#include <linux/module.h>

int ag_answer(void);

static int __init start(void) { return ag_answer() == 42 ? 0 : -EINVAL; }
static void __exit end(void) { }
module_init(start);
module_exit(end);

MODULE_DESCRIPTION("depends on ag_export");
MODULE_LICENSE("GPL");
