//! Links, addresses and bridges by netlink, for the run network and for the inside of a guest.
