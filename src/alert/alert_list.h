/* One row a kind of receiver. */
ALERT_RECEIVER(log)
ALERT_RECEIVER(webhook)
ALERT_RECEIVER(slack)
ALERT_RECEIVER(alertmanager)
ALERT_RECEIVER(command)
