// Drives QEMU's educational device, for which no kernel has a driver. It does
// not bind without its firmware.
#include <linux/firmware.h>
#include <linux/module.h>
#include <linux/pci.h>

#define BLOB "edu/edu.bin"

static int edu_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	const struct firmware *blob;
	int err = request_firmware_direct(&blob, BLOB, &pdev->dev);

	if (err)
		return err;
	release_firmware(blob);
	return pcim_enable_device(pdev);
}

static const struct pci_device_id edu_ids[] = { { PCI_DEVICE(0x1234, 0x11e8) }, { } };
MODULE_DEVICE_TABLE(pci, edu_ids);

static struct pci_driver edu_driver = { .name = "edu", .id_table = edu_ids, .probe = edu_probe };
module_pci_driver(edu_driver);

MODULE_DESCRIPTION("QEMU educational device");
MODULE_VERSION("1.0");
MODULE_FIRMWARE(BLOB);
MODULE_LICENSE("GPL");
