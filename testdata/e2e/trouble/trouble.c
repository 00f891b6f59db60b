// A driver for the e1000e card that goes wrong where its parameter says.
#include <linux/completion.h>
#include <linux/module.h>
#include <linux/pci.h>

static char *in = "";
module_param(in, charp, 0444);
MODULE_PARM_DESC(in, "start: crash in init; probe, remove: never come back");

static DECLARE_COMPLETION(never);

static int trouble_probe(struct pci_dev *dev, const struct pci_device_id *id)
{
	if (!strcmp(in, "probe"))
		wait_for_completion(&never);
	return 0;
}

static void trouble_remove(struct pci_dev *dev)
{
	if (!strcmp(in, "remove"))
		wait_for_completion(&never);
	pci_info(dev, "let go\n"); /* so that the call above is none of the last, which leaves no frame */
}

static const struct pci_device_id ids[] = { { PCI_DEVICE(0x8086, 0x10d3) }, {} };
MODULE_DEVICE_TABLE(pci, ids);

static struct pci_driver driver = { .name = "trouble", .id_table = ids, .probe = trouble_probe, .remove = trouble_remove };

static int __init start(void)
{
	if (!strcmp(in, "start"))
		WRITE_ONCE(*(int *)0, 1);
	return pci_register_driver(&driver);
}

static void __exit end(void) { pci_unregister_driver(&driver); }

module_init(start);
module_exit(end);

MODULE_DESCRIPTION("goes wrong where it is told to");
MODULE_LICENSE("GPL");
