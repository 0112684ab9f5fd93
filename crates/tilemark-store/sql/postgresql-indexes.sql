-- lane categories
ALTER TABLE categories ADD PRIMARY KEY (category);
-- lane products
ALTER TABLE products ADD PRIMARY KEY (prod_id);
-- lane products
CREATE INDEX products_category ON products (category, special);
-- lane products
CREATE INDEX products_title ON products USING gin (to_tsvector('simple', title));
-- lane products
CREATE INDEX products_actor ON products USING gin (to_tsvector('simple', actor));
-- lane customers
ALTER TABLE customers ADD PRIMARY KEY (customerid);
-- lane customers
CREATE UNIQUE INDEX customers_username ON customers (username);
-- lane orders
ALTER TABLE orders ADD PRIMARY KEY (orderid);
-- lane orders
CREATE INDEX orders_customer ON orders (customerid);
-- lane orderlines
ALTER TABLE orderlines ADD PRIMARY KEY (orderid, orderlineid);
-- lane cust_hist
CREATE INDEX cust_hist_customer ON cust_hist (customerid, orderid);
-- lane inventory
ALTER TABLE inventory ADD PRIMARY KEY (prod_id);
-- lane reorder
CREATE INDEX reorder_product ON reorder (prod_id);
-- lane foreign keys
ALTER TABLE products ADD CONSTRAINT products_to_categories FOREIGN KEY (category) REFERENCES categories (category);
-- lane foreign keys
ALTER TABLE inventory ADD CONSTRAINT inventory_to_products FOREIGN KEY (prod_id) REFERENCES products (prod_id) ON DELETE CASCADE;
-- lane foreign keys
ALTER TABLE reorder ADD CONSTRAINT reorder_to_products FOREIGN KEY (prod_id) REFERENCES products (prod_id) ON DELETE CASCADE;
-- lane foreign keys
ALTER TABLE orders ADD CONSTRAINT orders_to_customers FOREIGN KEY (customerid) REFERENCES customers (customerid) ON DELETE SET NULL;
-- lane foreign keys
ALTER TABLE orderlines ADD CONSTRAINT orderlines_to_orders FOREIGN KEY (orderid) REFERENCES orders (orderid) ON DELETE CASCADE;
-- lane foreign keys
ALTER TABLE cust_hist ADD CONSTRAINT cust_hist_to_customers FOREIGN KEY (customerid) REFERENCES customers (customerid) ON DELETE CASCADE;
