// Imports a symbol that only GPL modules may use.
#include <linux/device.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/platform_device.h>

static struct platform_device *dev;

static int __init start(void)
{
	dev = platform_device_register_simple("ag_gpl", -1, NULL, 0);
	return PTR_ERR_OR_ZERO(dev);
}
static void __exit end(void) { platform_device_unregister(dev); }
module_init(start);
module_exit(end);

MODULE_DESCRIPTION("uses a GPL-only symbol");
MODULE_LICENSE("GPL and additional rights");
