// SPDX-License-Identifier: GPL-2.0
/*
 * picosim - an I2C adapter and an SPI controller whose parts are simulated by a process.
 *
 * All above the wire is the real kernel: i2c-core, i2c-dev, spi-core, spidev and any chip driver. A transfer becomes
 * one message that is read from /dev/picosim and answered there:
 *
 * request: u32 length, u32 sequence, u8 kind (1 I2C, 2 SPI), u8 bus, u16 n
 *   I2C:   n times { u16 address, u16 flags (I2C_M_*), u32 length, data[length] unless I2C_M_RD }
 *   SPI:   u8 chip select, u8 mode, u16 0, then
 *          n times { u32 length, u32 speed in Hz, u8 bits, u8 cs_change, u16 delay in us, data[length] }
 * answer:  u32 sequence, s32 status (0 or -errno), then the bytes of all I2C reads, or of all SPI transfers
 *
 * A transfer that is not answered within timeout_ms fails with ETIMEDOUT, as on a bus that hangs.
 */
#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/i2c.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/regulator/driver.h>
#include <linux/regulator/machine.h>
#include <linux/slab.h>
#include <linux/spi/spi.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#define CHIP_SELECTS 8

static int timeout_ms = 1000;
module_param(timeout_ms, int, 0644);

/* What stands behind each chip select, by the names of the chip drivers; the default is an id of spidev's. */
static char *spi[CHIP_SELECTS] = { "dh2228fv", "dh2228fv" };
static int spi_given = 2;
module_param_array(spi, charp, &spi_given, 0444);

struct header {
	u32 length, sequence;
	u8 kind, bus;
	u16 n;
} __packed;

struct i2c_part {
	u16 address, flags;
	u32 length;
} __packed;

struct spi_select {
	u8 chip_select, mode;
	u16 zero;
} __packed;

struct spi_part {
	u32 length, speed;
	u8 bits, cs_change;
	u16 delay;
} __packed;

struct request {
	struct list_head node;
	struct header *message;
	u8 *answer;
	u32 answer_length;
	int status;
	bool answered;
	struct completion done;
};

static LIST_HEAD(waiting); /* not yet read by the process */
static LIST_HEAD(taken);   /* read, not yet answered */
static DEFINE_MUTEX(lock);
static DECLARE_WAIT_QUEUE_HEAD(arrivals);
static u32 sequence;
static int readers;

/* Hand a message to the process and wait for its answer, which the caller frees. */
static int ask(struct header *message, u8 **answer, u32 *answer_length)
{
	struct request r = { .message = message };

	init_completion(&r.done);
	mutex_lock(&lock);
	if (!readers) {
		mutex_unlock(&lock);
		return -ENXIO;
	}
	message->sequence = ++sequence;
	list_add_tail(&r.node, &waiting);
	mutex_unlock(&lock);
	wake_up(&arrivals);

	wait_for_completion_timeout(&r.done, msecs_to_jiffies(timeout_ms));
	mutex_lock(&lock);
	if (!r.answered) {
		list_del(&r.node);
		r.status = -ETIMEDOUT;
	}
	mutex_unlock(&lock);
	*answer = r.answer;
	*answer_length = r.answer_length;
	return r.status;
}

static void answered(struct request *r, int status)
{
	list_del(&r->node);
	r->status = status;
	r->answered = true;
	complete(&r->done);
}

static int picosim_open(struct inode *inode, struct file *file)
{
	mutex_lock(&lock);
	readers++;
	mutex_unlock(&lock);
	return 0;
}

static int picosim_release(struct inode *inode, struct file *file)
{
	struct request *r, *next;

	mutex_lock(&lock);
	if (!--readers) {
		list_splice_init(&taken, &waiting);
		list_for_each_entry_safe(r, next, &waiting, node)
			answered(r, -ENXIO);
	}
	mutex_unlock(&lock);
	return 0;
}

static ssize_t picosim_read(struct file *file, char __user *to, size_t size, loff_t *position)
{
	struct request *r;
	ssize_t result;

	mutex_lock(&lock);
	r = list_first_entry_or_null(&waiting, struct request, node);
	if (!r)
		result = -EAGAIN;
	else if (r->message->length > size)
		result = -EMSGSIZE;
	else if (copy_to_user(to, r->message, r->message->length))
		result = -EFAULT;
	else
		result = r->message->length;
	if (result > 0)
		list_move_tail(&r->node, &taken);
	mutex_unlock(&lock);
	return result;
}

static ssize_t picosim_write(struct file *file, const char __user *from, size_t size, loff_t *position)
{
	struct { u32 sequence; s32 status; } head;
	struct request *r;
	u8 *data;

	if (size < sizeof(head) || size > 1 << 20 || copy_from_user(&head, from, sizeof(head)))
		return -EINVAL;
	data = memdup_user(from + sizeof(head), size - sizeof(head));
	if (IS_ERR(data))
		return PTR_ERR(data);
	mutex_lock(&lock);
	list_for_each_entry(r, &taken, node) {
		if (r->message->sequence != head.sequence)
			continue;
		r->answer = data;
		r->answer_length = size - sizeof(head);
		answered(r, head.status);
		mutex_unlock(&lock);
		return size;
	}
	mutex_unlock(&lock);
	kfree(data);
	return -ESRCH; /* too late: the transfer has timed out */
}

static __poll_t picosim_poll(struct file *file, poll_table *table)
{
	poll_wait(file, &arrivals, table);
	return EPOLLOUT | (list_empty(&waiting) ? 0 : EPOLLIN);
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.open = picosim_open,
	.release = picosim_release,
	.read = picosim_read,
	.write = picosim_write,
	.poll = picosim_poll,
};
static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR, .name = "picosim", .fops = &operations, .mode = 0600,
};

static int i2c_transfer_asked(struct i2c_adapter *adapter, struct i2c_msg *m, int n)
{
	u32 length = sizeof(struct header), got = 0;
	struct header *message;
	u8 *at, *answer = NULL;
	int i, status;

	for (i = 0; i < n; i++) {
		if (m[i].flags & I2C_M_RECV_LEN)
			return -EOPNOTSUPP;
		length += sizeof(struct i2c_part) + (m[i].flags & I2C_M_RD ? 0 : m[i].len);
	}
	message = kzalloc(length, GFP_KERNEL);
	if (!message)
		return -ENOMEM;
	*message = (struct header){ .length = length, .kind = 1, .bus = adapter->nr, .n = n };
	at = (u8 *)(message + 1);
	for (i = 0; i < n; i++) {
		*(struct i2c_part *)at = (struct i2c_part){ m[i].addr, m[i].flags, m[i].len };
		at += sizeof(struct i2c_part);
		if (!(m[i].flags & I2C_M_RD)) {
			memcpy(at, m[i].buf, m[i].len);
			at += m[i].len;
		}
	}
	status = ask(message, &answer, &got);
	for (at = answer, i = 0; !status && i < n; i++) {
		if (!(m[i].flags & I2C_M_RD))
			continue;
		if (answer + got - at < m[i].len) {
			status = -EIO;
			break;
		}
		memcpy(m[i].buf, at, m[i].len);
		at += m[i].len;
	}
	kfree(answer);
	kfree(message);
	return status ?: n;
}

static u32 i2c_functions(struct i2c_adapter *adapter)
{
	return I2C_FUNC_I2C | I2C_FUNC_SMBUS_EMUL;
}

static const struct i2c_algorithm algorithm = {
	.master_xfer = i2c_transfer_asked, .functionality = i2c_functions,
};

static int spi_message_asked(struct spi_controller *controller, struct spi_message *msg)
{
	u32 length = sizeof(struct header) + sizeof(struct spi_select), total = 0, got = 0;
	struct spi_transfer *t;
	struct header *message;
	u8 *at, *answer = NULL;
	u16 n = 0;
	int status = -ENOMEM;

	list_for_each_entry(t, &msg->transfers, transfer_list) {
		length += sizeof(struct spi_part) + t->len;
		total += t->len;
		n++;
	}
	message = kvzalloc(length, GFP_KERNEL);
	if (!message)
		goto out;
	*message = (struct header){ .length = length, .kind = 2, .bus = controller->bus_num, .n = n };
	at = (u8 *)(message + 1);
	*(struct spi_select *)at = (struct spi_select){ msg->spi->chip_select, msg->spi->mode };
	at += sizeof(struct spi_select);
	list_for_each_entry(t, &msg->transfers, transfer_list) {
		u16 delay = t->delay.unit == SPI_DELAY_UNIT_USECS ? t->delay.value : 0;

		*(struct spi_part *)at = (struct spi_part){ t->len, t->speed_hz, t->bits_per_word, t->cs_change, delay };
		at += sizeof(struct spi_part);
		if (t->tx_buf)
			memcpy(at, t->tx_buf, t->len);
		at += t->len;
	}
	status = ask(message, &answer, &got);
	if (!status && got < total)
		status = -EIO;
	at = answer;
	list_for_each_entry(t, &msg->transfers, transfer_list) {
		if (status)
			break;
		if (t->rx_buf)
			memcpy(t->rx_buf, at, t->len);
		at += t->len;
		msg->actual_length += t->len;
	}
	kfree(answer);
	kvfree(message);
out:
	msg->status = status;
	spi_finalize_current_message(controller);
	return 0;
}

static struct device *root;
static struct i2c_adapter adapter = {
	.owner = THIS_MODULE, .algo = &algorithm, .nr = 1, .name = "picosim", .timeout = HZ,
};

static int register_spi(void)
{
	struct spi_controller *controller = spi_alloc_master(root, 0);
	int i, status;

	if (!controller)
		return -ENOMEM;
	controller->bus_num = 0;
	controller->num_chipselect = CHIP_SELECTS;
	controller->mode_bits = SPI_CPOL | SPI_CPHA | SPI_CS_HIGH | SPI_LSB_FIRST | SPI_3WIRE | SPI_NO_CS;
	controller->bits_per_word_mask = SPI_BPW_RANGE_MASK(4, 32);
	controller->max_speed_hz = 125000000;
	controller->transfer_one_message = spi_message_asked;
	status = spi_register_controller(controller);
	if (status) {
		spi_controller_put(controller);
		return status;
	}
	for (i = 0; i < spi_given; i++) {
		struct spi_board_info info = { .max_speed_hz = 125000000, .chip_select = i };

		strscpy(info.modalias, spi[i], sizeof(info.modalias));
		if (!spi_new_device(controller, &info))
			pr_warn("picosim: nothing at chip select %d\n", i);
	}
	return 0;
}

/* Converters ask for the voltage that they are referred to: 3.3 V, as on a Raspberry Pi. */
static struct regulator_consumer_supply supplies[] = { REGULATOR_SUPPLY("vref", NULL) };
static struct regulator_init_data supplied = {
	.constraints = { .always_on = 1 },
	.consumer_supplies = supplies,
	.num_consumer_supplies = ARRAY_SIZE(supplies),
};
static const struct regulator_ops fixed = {};
static const struct regulator_desc reference = {
	.name = "picosim-vref",
	.type = REGULATOR_VOLTAGE,
	.owner = THIS_MODULE,
	.ops = &fixed,
	.n_voltages = 1,
	.fixed_uV = 3300000,
};

static int register_reference(void)
{
	struct regulator_config config = { .dev = root, .init_data = &supplied };

	return PTR_ERR_OR_ZERO(devm_regulator_register(root, &reference, &config));
}

/* The module stays until the machine ends, so there is nothing to undo. */
static int __init picosim_init(void)
{
	int status = misc_register(&device);

	if (status)
		return status;
	root = root_device_register("picosim");
	if (IS_ERR(root))
		return PTR_ERR(root);
	adapter.dev.parent = root;
	status = i2c_add_numbered_adapter(&adapter);
	status = status ?: register_reference();
	return status ?: register_spi();
}
module_init(picosim_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("I2C and SPI whose parts are simulated by a process");
