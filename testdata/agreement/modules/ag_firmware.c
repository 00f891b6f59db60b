// Will not start without its firmware.
#include <linux/firmware.h>
#include <linux/module.h>
#include <linux/platform_device.h>

#define BLOB "agreement/blob.bin"

static int __init start(void)
{
	const struct firmware *blob;
	struct platform_device *dev = platform_device_register_simple("ag_firmware", -1, NULL, 0);
	int err;

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	err = request_firmware_direct(&blob, BLOB, &dev->dev);
	if (!err)
		release_firmware(blob);
	platform_device_unregister(dev);
	return err;
}
static void __exit end(void) { }
module_init(start);
module_exit(end);

MODULE_DESCRIPTION("needs firmware");
MODULE_FIRMWARE(BLOB);
MODULE_LICENSE("GPL");
