-- lane products
ALTER TABLE products ADD KEY products_category (category, special), ADD FULLTEXT KEY products_title (title);
-- lane products
ALTER TABLE products ADD FULLTEXT KEY products_actor (actor);
-- lane customers
ALTER TABLE customers ADD UNIQUE KEY customers_username (username);
-- lane orders
ALTER TABLE orders ADD KEY orders_customer (customerid);
-- lane cust_hist
ALTER TABLE cust_hist ADD KEY cust_hist_customer (customerid, orderid);
-- lane reorder
ALTER TABLE reorder ADD KEY reorder_product (prod_id);
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
