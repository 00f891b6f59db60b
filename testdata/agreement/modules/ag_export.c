// Exports what ag_user and ag_namespace import.
#include <linux/module.h>

int ag_answer(void);
int ag_hidden(void);

int ag_answer(void) { return 42; }
EXPORT_SYMBOL_GPL(ag_answer);

int ag_hidden(void) { return 43; }
EXPORT_SYMBOL_NS_GPL(ag_hidden, AGREEMENT);

MODULE_DESCRIPTION("exports two symbols, one of them in a namespace");
MODULE_LICENSE("GPL");
