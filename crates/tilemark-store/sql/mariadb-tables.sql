-- The online store on MariaDB, all tables InnoDB. Keys that a search needs are in mariadb-indexes.sql: they are made
-- after the rows, which is several times faster than keeping them while loading.
CREATE TABLE categories (
  category tinyint unsigned NOT NULL,
  categoryname varchar(50) NOT NULL,
  PRIMARY KEY (category)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE products (
  prod_id int NOT NULL AUTO_INCREMENT,
  category tinyint unsigned NOT NULL,
  title varchar(50) NOT NULL,
  actor varchar(50) NOT NULL,
  price decimal(12,2) NOT NULL,
  special tinyint NOT NULL,
  common_prod_id int NOT NULL,
  PRIMARY KEY (prod_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE customers (
  customerid int NOT NULL AUTO_INCREMENT,
  firstname varchar(50) NOT NULL,
  lastname varchar(50) NOT NULL,
  address1 varchar(50) NOT NULL,
  address2 varchar(50) NOT NULL DEFAULT '',
  city varchar(50) NOT NULL,
  state varchar(50) NOT NULL DEFAULT '',
  zip varchar(9) NOT NULL,
  country varchar(50) NOT NULL,
  region tinyint NOT NULL,
  email varchar(50) NOT NULL,
  phone varchar(50) NOT NULL,
  creditcardtype int NOT NULL,
  creditcard varchar(50) NOT NULL,
  creditcardexpiration varchar(50) NOT NULL,
  username varchar(50) NOT NULL,
  password varchar(50) NOT NULL,
  age tinyint NOT NULL,
  income int NOT NULL,
  gender varchar(1) NOT NULL,
  PRIMARY KEY (customerid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE orders (
  orderid int NOT NULL AUTO_INCREMENT,
  orderdate date NOT NULL,
  customerid int DEFAULT NULL,
  netamount decimal(12,2) NOT NULL,
  tax decimal(12,2) NOT NULL,
  totalamount decimal(12,2) NOT NULL,
  PRIMARY KEY (orderid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE orderlines (
  orderlineid smallint NOT NULL,
  orderid int NOT NULL,
  prod_id int NOT NULL,
  quantity smallint NOT NULL,
  orderdate date NOT NULL,
  PRIMARY KEY (orderid, orderlineid)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE cust_hist (
  customerid int NOT NULL,
  orderid int NOT NULL,
  prod_id int NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE inventory (
  prod_id int NOT NULL,
  quan_in_stock int NOT NULL CHECK (quan_in_stock >= 0),
  sales int NOT NULL,
  PRIMARY KEY (prod_id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
CREATE TABLE reorder (
  prod_id int NOT NULL,
  date_low date NOT NULL,
  quan_low int NOT NULL,
  date_reordered date NOT NULL,
  quan_reordered int NOT NULL,
  date_expected date NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4;
