"""One partition on its way: KAFKA-6794 by either engine, with its gates and its leaders."""
